"""``python -m collalgo`` is the command ``collalgo``."""

from collalgo.cli.main import main

main()
