"""Exchange schedules with MSCCL++ as execution plans in JSON.

A plan lists the operations of the thread blocks of each GPU. They access the memory of
other GPUs at once, and are ordered by signals, barriers and semaphores.
:func:`algorithm_of` reads a plan into an algorithm; :func:`json_of` writes an algorithm
as a plan. The modules:

- ``plan.py``: the operations of a plan; ``parsing.py``: parse the JSON;
- to read: ``threads.py``, the threads of a block; ``synchronisation.py``, the order
  between blocks; ``plan_events.py``, the accesses to memory;
- to write: ``arrivals.py``, the place where each message arrives; ``plan_writer.py``,
  the operations; ``document.py``, the JSON.
"""

from collalgo.integrations.mscclpp.row import algorithm_of, json_of

__all__ = ["algorithm_of", "json_of"]
