"""Transports: how the ranks of a world come by their ends of the channels."""
