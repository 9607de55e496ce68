"""Tensor parallelism of vLLM on CPUs over the engine: ``VLLM_PLUGINS=collalgo``.

The process groups of vLLM's workers then have the torch backend of this library, within
a host and between hosts, where vLLM has gloo.
"""
