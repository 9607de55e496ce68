"""Convert execution plans to algorithms, and algorithms to execution plans."""

from functools import partial
from pathlib import Path

from collalgo.algorithms.row import Algorithm
from collalgo.integrations.msccl.row import of_translator, program_of
from collalgo.integrations.msccl.steps import Translator
from collalgo.integrations.mscclpp.document import text_of
from collalgo.integrations.mscclpp.parsing import read
from collalgo.integrations.mscclpp.plan import Plan
from collalgo.integrations.mscclpp.plan_events import PlanEvents
from collalgo.integrations.mscclpp.plan_writer import PlanWriter


def algorithm_of(path: str | Path) -> Algorithm:
    """Read the algorithm of an execution plan, for the number of GPUs of the plan.

    It is not added to the table. It is proved before its first run.

    Raises
    ------
    ScheduleError
        If the file cannot be read, or if its operations deadlock or race.
    """
    return named_after(read(path), str(path))


def named_after(plan: Plan, file: str) -> Algorithm:
    """The algorithm of a plan, under the plan's name."""
    translator = Translator(plan.name, plan.cells, partial(PlanEvents, plan))
    return of_translator(translator, file)


def plan_of(row: Algorithm, size: int, channel: str = "memory") -> Plan:
    """The execution plan of an algorithm for ``size`` GPUs."""
    return PlanWriter(program_of(row, size), channel).plan()


def json_of(row: Algorithm, size: int, channel: str = "memory") -> str:
    """Write an algorithm for ``size`` ranks as an execution plan of MSCCL++.

    Parameters
    ----------
    row
        The algorithm.
    size
        The number of ranks, each a GPU.
    channel
        The type of all channels: ``memory`` inside a host, ``port`` also between hosts.

    Raises
    ------
    AlgorithmNotApplicable
        If MSCCL++ does not support the collective.
    """
    return text_of(plan_of(row, size, channel))
