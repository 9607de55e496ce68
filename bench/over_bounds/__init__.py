"""Compare the prices of all collectives with their bounds, on many machines."""
