"""Schedules on devices: plans become operations on streams."""
