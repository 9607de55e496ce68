"""Messages between two ranks, outside the calls that all ranks make."""
