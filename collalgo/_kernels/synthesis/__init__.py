"""Compiled loops of the construction of schedules."""
