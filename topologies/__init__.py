"""Machines as data; nothing is here yet but the place."""
