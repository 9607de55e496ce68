"""What a schedule costs on a host or a topology, and its lower bound."""
