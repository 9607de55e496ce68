"""Compiled loops of the price models."""
