"""``python -m collalgo`` is the command ``collalgo``."""

from collalgo.cli import main

main()
