"""From a call to the program that runs it: decide, prove, lower, remember."""

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from collalgo._kernels.engine.engine import Program
from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo.algorithms.first_use import prove_once
from collalgo.base.cache import recalled
from collalgo.comm.call_text import EXCHANGE, NO_OP, UNEVEN
from collalgo.cost.copy_policy import CopyPolicy
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.engine.call import Call
from collalgo.engine.plan.chunk_pipelining import RANKS, Slicing, cut, step_count
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.lowering import UNSLICED
from collalgo.engine.plan.rows import Plan, PlanTemplate
from collalgo.engine.plan.template import TemplateKey, averaging_of
from collalgo.engine.reduction import (
    DIVIDED,
    DTYPES,
    RECORDED_OPS,
    SPLIT_MEAN,
    dtype_name,
    reduction,
)
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.decide import Decision, Question, decide
from collalgo.selection.on_host import HostPricer, price
from collalgo.selection.pricer import Pricer

if TYPE_CHECKING:  # which takes a while to import
    from collalgo.topology.model import Topology

#: Buffers that are not worth cutting, in bytes.
SHORT = 16384


class ProgramCache:
    """The programs of one rank of a communicator, each made at its first call."""

    def __init__(
        self,
        rank: int,
        size: int,
        profile: HostProfile | None,
        hosts: Sequence[int] = (),
        placed: "Callable[[], tuple[Topology, Sequence[str]]] | None" = None,
    ):
        self.rank = rank
        self.size = size
        self.host_profile = profile
        self.hosts = hosts if len(set(hosts)) > 1 else ()
        self._placed = placed
        self._remembered: dict[Call, Program] = {}
        self._exchanges: dict[tuple[str, int], Program] = {}

    @property
    def _profile(self) -> HostProfile:
        """The profile that all ranks have agreed on, or that of this host."""
        return self.host_profile or host_profile()

    @cached_property
    def pricer(self) -> Pricer:
        """The prices of the candidates for the calls of these ranks."""
        profile = self._profile
        if self._placed is None:
            return HostPricer(self.size, profile)
        from collalgo.selection.on_topology import placed_pricer

        topology, devices = self._placed()
        return placed_pricer(topology, profile, devices)

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
        decision = self._decide(call, layout)
        return [
            self._template(call, decision, rank).plan(layout)
            for rank in range(self.size)
        ]

    def name(self, call: Call) -> str:
        """The name of the algorithm that a plain call runs."""
        return self._decide(call, call.layout(self.size)).name

    def exchange(self, call: Call, nbytes: int, name: str) -> Program:
        """A program that exchanges ``nbytes`` of each rank among all, before a call.

        It is compared as that call by an algorithm of that name.
        """
        plan = self.get("allgather", np.dtype(np.uint8), nbytes).plan
        return Program(plan, None, 0, self._record(call, call.layout(self.size), name))

    def exchange_for(self, call: str, nbytes: int) -> Program:
        """A program by which the library exchanges ``nbytes`` of each rank for a call.

        The ranks compare the name of that call.
        """
        return recalled(self._exchanges, (call, nbytes), self._exchange_for)

    def _exchange_for(self, key: tuple[str, int]) -> Program:
        name, nbytes = key
        call = Call("allgather", np.dtype(np.uint8), nbytes)
        return self.exchange(call, nbytes, EXCHANGE + name)

    def _lower(self, call: Call) -> Program:
        collective = COLLECTIVES[call.collective]
        kernel = self._checked(call)
        layout = call.layout(self.size)
        decision = self._decide(call, layout)
        schedule = decision.schedule
        policy = CopyPolicy(call.collective, self.size, self._profile)
        nbytes = layout.nbytes // collective.buffers(self.size)
        handed_out = (
            policy.is_handed_out_by_kernel(nbytes)
            and step_count(schedule, self.size, call.root) == 1
        )
        at_once = handed_out or policy.is_at_once(nbytes)
        slicing = Slicing() if at_once else self._slicing(call, layout, schedule)
        template = self._template(call, decision, self.rank, slicing, self.hosts)
        plan = template.plan(layout)
        divisor = self.size if call.op in DIVIDED else 0
        record = self._record(call, layout, decision.name)
        return Program(
            plan, kernel, divisor, record, policy.copying(nbytes, handed_out)
        )

    def _checked(self, call: Call) -> Reduction | None:
        """The kernel of a call, if it reduces; an error if the call cannot be made."""
        if not 0 <= call.root < self.size:
            raise ValueError(
                f"{call.collective}: root {call.root} is out of range; this "
                f"communicator has {self.size} ranks, 0 to {self.size - 1}"
            )
        if call.op == "avg" and COLLECTIVES[call.collective].prefix:
            raise ValueError(f"{call.collective} has no op 'avg'; use 'sum'")
        try:
            dtype_name(call.dtype)
            return reduction(call.dtype, call.op) if call.op else None
        except (TypeError, ValueError) as error:
            raise type(error)(f"{call.collective}: {error}") from None

    def _decide(self, call: Call, layout: Layout) -> Decision:
        """The decision for a plain call, whose schedule is proved."""
        buffers = COLLECTIVES[call.collective].buffers(self.size)
        counts = call.counts
        question = Question(
            call.collective,
            layout.nbytes // buffers,
            call.algorithm,
            call.reproducible,
            block_nbytes=counts and tuple(n * call.dtype.itemsize for n in counts),
            root=call.root,
        )
        decision = decide(question, self.pricer)
        if decision.unproved:
            prove_once(decision.schedule, self.size, call.collective, call.root)
        return decision

    def _template(
        self,
        call: Call,
        decision: Decision,
        rank: int,
        slicing: Slicing = UNSLICED,
        hosts: Sequence[int] = (),
    ) -> PlanTemplate:
        """The template of a rank's plans for calls of all lengths."""
        own = decision.candidate.row.of_library
        averaging = averaging_of(call.collective, call.op in DIVIDED, own)
        return TemplateKey(
            call.collective, decision.schedule, rank, self.size, call.root, averaging,
            slicing, tuple(hosts),
        ).template()  # fmt: skip

    def _record(self, call: Call, layout: Layout, name: str) -> tuple[Any, ...]:
        """What the ranks compare of a call."""
        count = call.count if call.counts is None else sum(call.counts)
        op = RECORDED_OPS.index(call.op) if call.op else NO_OP
        compared = (
            list(COLLECTIVES).index(call.collective),
            DTYPES.index(dtype_name(call.dtype)),
            op,
            call.root,
            count // 2 if call.op == SPLIT_MEAN else count,  # two parts of each
        )
        fingerprint = _fingerprint(*compared, layout.counts, name)
        if op == NO_OP and call.counts is not None:  # which names it, only
            compared = (*compared[:2], UNEVEN, *compared[3:])
        return (fingerprint, *compared, name)

    def _slicing(
        self, call: Call, layout: Layout, schedule: ScheduleFunction
    ) -> Slicing:
        """The slicing of a call; the number of slices is that of the best price."""
        nbytes = layout.nbytes
        if nbytes <= SHORT or self.size > RANKS or self.hosts:
            return Slicing()
        cost = price(schedule, self.size, self._profile)
        blocks = layout.blocks if layout.counts is not None else 1
        count = cost.slices(nbytes)
        return cut(count, schedule, self.size, call.root, blocks)


def _fingerprint(*compared: object) -> int:
    digest = blake2b(repr(compared).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
