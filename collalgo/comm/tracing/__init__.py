"""What ranks have called: dumps, what they show together, and timelines of runs."""
