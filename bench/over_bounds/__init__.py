"""Compare the prices of all collectives with their bounds, on hundreds of machines."""
