"""Which algorithm to use, and why."""
