"""Messages between two ranks: matching by tags, progress, waits."""
