"""Lowering: from a schedule to the rows of bytes that the engine runs."""
