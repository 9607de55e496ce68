"""The reductions of every dtype and op."""
