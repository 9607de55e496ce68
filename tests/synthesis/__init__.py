"""Tests of schedules computed for a topology."""
