"""Calls on arrays in the memory of devices."""
