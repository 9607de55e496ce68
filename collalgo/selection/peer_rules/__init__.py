"""Tuning files of peers: their formats, and the algorithms that both have."""
