"""Compiled loops of elastic jobs."""
