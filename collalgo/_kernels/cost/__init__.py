"""The compiled loops of prices."""
