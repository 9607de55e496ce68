"""The choice of an algorithm: candidates, their prices, and who decides."""
