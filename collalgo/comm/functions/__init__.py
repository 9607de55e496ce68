"""The collectives as functions that find their communicator."""
