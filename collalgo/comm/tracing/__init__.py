"""Trace the calls of ranks: dumps, the analysis of dumps, and timelines."""
