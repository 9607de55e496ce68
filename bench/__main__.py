"""``python -m collalgo.bench``."""

from collalgo.bench.cli import main

main()
