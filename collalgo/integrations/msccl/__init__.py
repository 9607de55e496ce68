"""Exchange schedules with other tools as MSCCL XML.

An MSCCL file lists the instructions of the thread blocks of each GPU on the chunks of
three buffers: input, output and scratch. :func:`algorithm_of` reads a file into an
algorithm; :func:`xml_of` writes an algorithm as a file. The modules:

- ``msccl.py``: parse and write the XML; ``program.py``: the instructions of a file;
- ``cells.py``: map the chunks of a file to the parts of a schedule's buffer;
- to read: ``order.py``, the order of the instructions; ``instruction_events.py``, their
  accesses to each chunk (``events.py``); ``operations.py``, the earliest step of each;
  ``steps.py``, the steps of every rank;
- to write: ``writing.py``, the messages; ``gpu.py``, the thread blocks.
"""

from collalgo.integrations.msccl.row import algorithm_of, xml_of

__all__ = ["algorithm_of", "xml_of"]
