"""Schedules in files that other tools read and write.

The XML of MSCCL says for each GPU what its thread blocks do with the chunks of three
buffers: the input, the output and scratch. :func:`algorithm_of` gives what such a file
says as an algorithm, :func:`xml_of` gives an algorithm as such a file. In between are

- ``msccl.py``, the XML, and ``program.py``, what it says;
- ``cells.py``, what the chunks stand for in the buffer of a schedule;
- on the way in ``order.py``, what happens before what, ``operations.py``, what happens
  to each chunk in turn, and ``steps.py``, the steps of every rank;
- on the way out ``writing.py``, the messages, and ``gpu.py``, the thread blocks.
"""

from collalgo.integrations.msccl.row import algorithm_of, xml_of

__all__ = ["algorithm_of", "xml_of"]
