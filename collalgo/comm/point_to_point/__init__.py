"""Point-to-point messages between two ranks."""
