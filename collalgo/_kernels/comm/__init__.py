"""The calls of a communicator, compiled."""
