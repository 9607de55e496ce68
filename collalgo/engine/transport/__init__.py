"""Transports: the channels between the ranks, inside a host and between hosts."""
