"""The compiled transports."""
