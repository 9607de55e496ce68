"""The compiled code: reductions, the transports' C parts and the plan engine."""
