"""The micro-benchmark suite."""
