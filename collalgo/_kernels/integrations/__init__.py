"""Functions that other programs call, compiled."""
