"""Communicators: collectives, point-to-point, device calls, tracing."""
