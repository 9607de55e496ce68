"""The collectives as methods of a communicator."""
