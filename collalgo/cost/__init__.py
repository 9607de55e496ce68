"""What a schedule costs on a host or a topology, and what it must cost at least."""
