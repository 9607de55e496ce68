"""Schedules in files that other tools read and write.

The XML of MSCCL says for each GPU what its thread blocks do with the chunks of three
buffers: the input, the output and scratch. :mod:`collalgo.exchange.msccl` reads such
files and writes them, :mod:`collalgo.exchange.program` is what they say,
:mod:`collalgo.exchange.order` finds in which order things happen there, and
:mod:`collalgo.exchange.steps` makes steps of it, as all schedules have.
"""
