"""From a call to the program that runs it: choose, prove, lower, remember."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from collalgo._kernels.engine.engine import Program
from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo.algorithms import Algorithm, find
from collalgo.algorithms.verify import prove_once
from collalgo.base.cache import recalled
from collalgo.cost.copying import Copying
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.engine.call import Call
from collalgo.engine.plan.chunk_pipelining import RANKS, Slicing, cut, step_count
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.lowering import UNSLICED, Averaging, Lowering
from collalgo.engine.plan.rows import Plan
from collalgo.engine.reduction import DTYPES, OPS, dtype_name, reduction
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import ScheduleFunction, trace
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.on_host import HostPricer, price
from collalgo.selection.overrides import from_environment
from collalgo.selection.selection import NOT_SERIAL

if TYPE_CHECKING:  # for what only some need
    from collalgo.selection.on_topology import TopologyPricer
    from collalgo.topology.model import Topology

#: Buffers that are not worth cutting, in bytes.
SHORT = 16384


class Chosen(NamedTuple):
    """An algorithm by its name and its function."""

    name: str
    schedule: ScheduleFunction


class ProgramCache:
    """The programs of one rank of a communicator, each made at its first call."""

    def __init__(
        self,
        rank: int,
        size: int,
        machine: HostProfile | None,
        hosts: Sequence[int] = (),
        ground: "Callable[[], tuple[Topology, Sequence[str]]] | None" = None,
    ):
        self.rank = rank
        self.size = size
        self.machine = machine
        self.hosts = hosts if len(set(hosts)) > 1 else ()
        self._ground = ground
        self._remembered: dict[Call, Program] = {}

    @cached_property
    def pricer(self) -> "HostPricer | TopologyPricer":
        """Where the candidates for the calls of these ranks have their prices."""
        machine = self.machine or host_profile()
        if self._ground is None:
            return HostPricer(self.size, machine)
        topology, places = self._ground()
        from collalgo.cost.link_model import LinkModel
        from collalgo.selection.on_topology import TopologyPricer

        return TopologyPricer(topology, LinkModel.of_machine(machine), places)

    def get(self, *fields: Any) -> Program:
        """The program for a :class:`Call` of all these fields."""
        return recalled(self._remembered, Call(*fields), self._find)

    def _find(self, call: Call) -> Program:
        """The program under the plain name of the call, made if need be."""
        call = call.plain()
        if call not in self._remembered:
            self._remembered[call] = self._lower(call)
        return self._remembered[call]

    def plans(self, call: Call) -> list[Plan]:
        """The plans of all ranks for a plain call, not sliced, for one host."""
        self._checked(call)
        layout = call.layout(self.size)
        chosen = self._chosen(call, layout)
        return [self._plan(call, layout, chosen, rank) for rank in range(self.size)]

    def name(self, call: Call) -> str:
        """Which algorithm a plain call runs."""
        return self._chosen(call, call.layout(self.size)).name

    def exchange(self, call: Call, nbytes: int, name: str) -> Program:
        """A program by which all ranks tell each other so many bytes, before a call.

        It is compared as that call by an algorithm of that name.
        """
        plan = self.get("allgather", np.dtype(np.uint8), nbytes).plan
        return Program(plan, None, 0, self._record(call, call.layout(self.size), name))

    def _lower(self, call: Call) -> Program:
        collective = COLLECTIVES[call.collective]
        kernel = self._checked(call)
        layout = call.layout(self.size)
        chosen = self._chosen(call, layout)
        machine = self.machine or host_profile()
        copying = Copying(call.collective, self.size, machine)
        nbytes = layout.whole.stop // collective.buffers(self.size)
        streamed = copying.held(nbytes) >= machine.cache
        shares, lingers = copying.is_shared(nbytes), copying.lingers(nbytes)
        abreast = copying.is_read_abreast(nbytes)
        handed_out = (
            copying.is_handed_out_by_kernel(nbytes)
            and step_count(chosen.schedule, self.size, call.root) == 1
        )
        fetched = handed_out or copying.is_exchanged_by_kernel(nbytes)
        at_once = handed_out or copying.is_at_once(nbytes)
        slicing = Slicing() if at_once else self._slicing(call, layout, chosen)
        plan = self._plan(call, layout, chosen, self.rank, slicing, self.hosts)
        divisor = self.size if call.op == "avg" else 0
        record = self._record(call, layout, chosen.name)
        return Program(
            plan, kernel, divisor, record, fetched, streamed, shares, lingers, abreast
        )

    def _checked(self, call: Call) -> Reduction | None:
        """The kernel of a call, if it reduces; an error if the call cannot be made."""
        if not 0 <= call.root < self.size:
            raise ValueError(
                f"{call.collective}: root {call.root} is out of range; this "
                f"communicator has {self.size} ranks, 0 to {self.size - 1}"
            )
        if call.op == "avg" and call.collective in ("scan", "exscan"):
            raise ValueError(f"{call.collective} has no op 'avg'; use 'sum'")
        try:
            dtype_name(call.dtype)
            return reduction(call.dtype, call.op) if call.op else None
        except (TypeError, ValueError) as error:
            raise type(error)(f"{call.collective}: {error}") from None

    def _chosen(self, call: Call, layout: Layout) -> Chosen:
        buffers = COLLECTIVES[call.collective].buffers(self.size)
        return self._choose(call, layout.whole.stop // buffers)

    def _plan(
        self,
        call: Call,
        layout: Layout,
        chosen: Chosen,
        rank: int,
        slicing: Slicing = UNSLICED,
        hosts: Sequence[int] = (),
    ) -> Plan:
        steps = trace(chosen.schedule, rank, self.size, call.root)
        ends = call.ends(layout, rank, self.size)
        walk = Lowering(layout, rank, self.size, *ends, slicing, hosts)
        shared = call.collective == "allreduce"
        return walk.lower(steps, _averaging(shared, call.op), shared)

    def _record(self, call: Call, layout: Layout, name: str) -> tuple[Any, ...]:
        """What the ranks compare of a call."""
        compared = (
            list(COLLECTIVES).index(call.collective),
            DTYPES.index(dtype_name(call.dtype)),
            OPS.index(call.op) if call.op else -1,
            call.root,
            call.count if call.counts is None else sum(call.counts),
        )
        return (_fingerprint(*compared, layout.counts, name), *compared, name)

    def _slicing(self, call: Call, layout: Layout, chosen: Chosen) -> Slicing:
        """The slicing of a call; the number of slices is that of the best price."""
        nbytes = layout.whole.stop
        if nbytes <= SHORT or self.size > RANKS or self.hosts:
            return Slicing()
        cost = price(chosen.schedule, self.size, self.machine or host_profile())
        blocks = layout.blocks if layout.counts is not None else 1
        count = cost.waves(nbytes)
        return cut(count, chosen.schedule, self.size, call.root, blocks)

    def _choose(self, call: Call, nbytes: int) -> Chosen:
        if callable(call.algorithm):
            return self._of_user(call, call.algorithm)
        asked = call.algorithm
        if asked is None and (
            decision := from_environment(call.collective, self.size, nbytes)
        ):
            asked = decision.algorithm
        if asked is None:
            known = self.pricer.choices(call.collective, call.reproducible)
            row = self.pricer.runnable(known.at(nbytes))
        else:
            row = self._named(call, asked)
        if row.unproved:
            prove_once(row.schedule, self.size, call.collective, call.root)
        if row.parameters_for_counts and call.counts is not None:
            nbytes_of = [count * call.dtype.itemsize for count in call.counts]
            return Chosen(
                row.name, partial(row.schedule, **row.parameters_for_counts(nbytes_of))
            )
        return Chosen(row.name, row.schedule)

    def _of_user(self, call: Call, schedule: ScheduleFunction) -> Chosen:
        """A schedule function that is not in the table."""
        if call.reproducible:
            raise AlgorithmNotApplicable(
                f"{call.collective}: nothing says in which order {_name(schedule)} "
                "sums; name an algorithm of the table, or leave out reproducible",
                collective=call.collective,
            )
        prove_once(schedule, self.size, call.collective, call.root)
        return Chosen(_name(schedule), schedule)

    def _named(self, call: Call, names: str | Sequence[str]) -> Algorithm:
        """The first of the names that can run."""
        obstacles = []
        for name in (names,) if isinstance(names, str) else names:
            try:
                row = find(call.collective, name, self.size)
                if not call.reproducible or row.serial:
                    return row
                obstacles.append(f"{call.collective}: {name} {NOT_SERIAL}")
            except AlgorithmNotApplicable as obstacle:
                obstacles.append(str(obstacle))
        raise AlgorithmNotApplicable(
            "; ".join(obstacles) or f"{call.collective}: no algorithm is named",
            collective=call.collective,
        )


def _name(schedule: ScheduleFunction) -> str:
    """What all ranks call a schedule function, wherever it lies in their memory."""
    if isinstance(schedule, partial):
        parameters = [*map(repr, schedule.args)]
        parameters += [f"{key}={value!r}" for key, value in schedule.keywords.items()]
        return f"{_name(schedule.func)}({', '.join(parameters)})"
    return getattr(schedule, "__qualname__", type(schedule).__qualname__)


def _averaging(shared: bool, op: str | None) -> Averaging:
    if op != "avg":
        return Averaging.NO
    return Averaging.BEFORE_SHARING if shared else Averaging.AT_THE_END


def _fingerprint(*compared: object) -> int:
    digest = blake2b(repr(compared).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
