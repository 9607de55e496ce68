"""Schedules computed for a topology: packings of trees, ordered into steps."""
