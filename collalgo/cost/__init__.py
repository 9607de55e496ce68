"""The price of a schedule on a host or a topology, and its lower bound."""
