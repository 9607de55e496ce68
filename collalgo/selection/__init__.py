"""The decision for an algorithm: candidates, prices, overrides."""
