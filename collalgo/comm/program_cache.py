"""From a kind of calls to the programs that run it: decide, prove, lower, cache."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, Any

from collalgo._kernels.comm.call_kind import CallKind, SharedRange
from collalgo._kernels.engine.program import Program
from collalgo.base.cache import make_room, recalled
from collalgo.comm.call_record import blocks_passed, record_of
from collalgo.comm.prices_ahead import PricesAhead
from collalgo.comm.shared_kinds import Kinds, SharedKind, is_alike, kinds_of
from collalgo.comm.slicing import slicing_of
from collalgo.cost.copy_policy import CopyPolicy
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.engine.call import Call
from collalgo.engine.plan.chunk_pipelining import Slicing, step_count
from collalgo.engine.plan.copying import Copying
from collalgo.engine.plan.lowering import UNSLICED, Averaging
from collalgo.engine.plan.rows import Plan, PlanTemplate
from collalgo.engine.plan.template import TemplateKey, averaging_of
from collalgo.engine.reduction import DIVIDED, EXACT_OPS
from collalgo.engine.user_op import Op
from collalgo.selection.decide import Decision, Question, decisions
from collalgo.selection.on_host import HostPricer
from collalgo.selection.pricer import Pricer

if TYPE_CHECKING:  # which takes a while to import
    from collalgo.bootstrap.host_inventory import PlacedTopology


class ProgramCache:
    """The kinds of calls of one rank of a communicator, each made at its first call.

    Attributes
    ----------
    on_graphs : dict
        The schedules chosen for calls among neighbors in a graph.
    """

    _ahead: PricesAhead | None = None

    def __init__(
        self,
        rank: int,
        size: int,
        profile: HostProfile | None,
        hosts: Sequence[int] = (),
        placed: "Callable[[], PlacedTopology] | None" = None,
    ):
        self.rank = rank
        self.size = size
        self.host_profile = profile
        self.hosts = hosts if len(set(hosts)) > 1 else ()
        self._placed = self._described = placed
        self._kinds: dict[Call, CallKind] = {}
        self._own: Kinds = {}
        self._of_counts: dict[Call, SharedRange] = {}

    @cached_property
    def on_graphs(self) -> dict[Any, Any]:
        return {}

    @property
    def _profile(self) -> HostProfile:
        """The profile that all ranks have agreed on, or that of this host."""
        return self.host_profile or host_profile()

    @cached_property
    def pricer(self) -> Pricer:
        """The prices of the candidates for the calls of these ranks."""
        if self._placed is None:
            return HostPricer(self.size, self._profile)
        from collalgo.selection.placed_pricer import placed_pricer

        placed = self._placed()
        where = placed.topology, self._profile, placed.devices
        return placed_pricer(*where, placed.shared_cores)

    def begin_by_formulas(self) -> None:
        """On several hosts let formulas decide on short calls, until prices are known.

        All ranks call it before their first call.
        """
        if self._placed is not None:
            self._ahead = PricesAhead(self.pricer.private_copy)

    def are_prices_known(self) -> bool:
        """Whether formulas decide, and the prices of all calls so far are known.

        If they are not, a thread finds them from now on.
        """
        return self._ahead is not None and self._ahead.are_known()

    def use_prices(self) -> None:
        """Let formulas decide no more; all ranks call it between two calls."""
        if self._ahead is None:
            return
        if self._ahead.pricer is not None:
            self.__dict__["pricer"] = self._ahead.pricer
        self._decide_again()

    def kind(self, call: Call) -> CallKind:
        """The calls that differ from this one in their length only."""
        if call.count or call.counts:
            counts = None if call.counts is None else ()
            call = call._replace(count=0, counts=counts)
        return recalled(self._kinds, call, self._find)

    def get(self, *fields: Any) -> Program:
        """A new program for a :class:`Call` of all these fields."""
        call = Call(*fields)
        return self.kind(call).new_program(call.count, call.counts)

    def release(self) -> None:
        """Return the programs that other groups can use, at the end."""
        for kind in list(self._kinds.values()):
            kind.release()

    def replan(self, placed: "Callable[[], PlacedTopology] | None") -> None:
        """Decide again on all calls, for these machines; None for those of the job."""
        self._placed = placed or self._described
        self.__dict__.pop("pricer", None)
        self._decide_again()

    def _decide_again(self) -> None:
        """Let prices decide again on calls that were decided before."""
        self._ahead = None
        self.__dict__.pop("_shared", None)
        self.release()
        self._own.clear()
        self._of_counts.clear()
        self.on_graphs.clear()

    @cached_property
    def _shared(self) -> Kinds:
        """The kinds of calls of all groups that are equal to this one."""
        if self._placed is not None:  # where topologies differ
            return self._own
        return kinds_of((self.rank, self.size, self.hosts, self._profile))

    def _find(self, call: Call) -> CallKind:
        """The kind of a call, made if need be, also under its plain name."""
        make = self._plain_kind
        # An equal group may have made it with the same arguments.
        shared = recalled(self._shared, call, make) if is_alike(call) else make(call)
        if shared.call not in self._kinds:
            kind = CallKind(shared.call, self._size_range, *shared[1:5])
            self._kinds[shared.call] = kind
        return self._kinds[shared.call]

    def _plain_kind(self, call: Call) -> SharedKind:
        return self._shared_kind(call.plain())

    def _shared_kind(self, call: Call) -> SharedKind:
        """The kind of a plain call for all equal groups."""
        # A function of the user's lives no longer than its communicator.
        of_user = callable(call.algorithm) or isinstance(call.op, Op)
        return recalled(self._own if of_user else self._shared, call, self._share)

    def _share(self, call: Call) -> SharedKind:
        """The kind of a call for all equal groups."""
        call.kernel(self.size)
        return SharedKind.of(call, self.size)

    def plans(self, call: Call) -> list[Plan]:
        """The plans of all ranks for a plain call, not sliced, for one host."""
        call.kernel(self.size)
        layout = call.layout(self.size)
        decision = self._decision(call)
        return [
            self._template(call, decision, rank).plan(layout)
            for rank in range(self.size)
        ]

    def name(self, call: Call) -> str:
        """The name of the algorithm that a plain call runs."""
        return self._decision(call).name

    def _size_range(
        self, call: Call, nbytes: int, counts: tuple[int, ...] | None
    ) -> SharedRange:
        """The calls of a kind that run as one of ``nbytes``, with these counts.

        Where the schedule depends on the counts, it is kept for these counts only.
        """
        exact = call if counts is None else call._replace(counts=counts)
        if exact in self._of_counts:
            return self._of_counts[exact]
        shared = self._shared_kind(call)
        found = shared.range_of(nbytes, self.size)
        if found is None:
            found = self._new_range(call, nbytes, counts)
            if found.least < found.limit:
                shared.add(found, self.size)
            else:
                self._of_counts[exact] = found
                make_room(self._of_counts)
        return found

    def _new_range(
        self, call: Call, nbytes: int, counts: tuple[int, ...] | None
    ) -> SharedRange:
        """The same, where no equal group has made such a call."""
        decision, *decided = self._decide(call, nbytes, counts)
        policy = CopyPolicy(call.collective, self.size, self._profile)
        method, *copied = policy.by_size().at(nbytes)
        schedule = decision.schedule
        if method.handed_out and step_count(schedule, self.size, call.root) == 1:
            method = method.by_kernel()
        in_slices = not (method.at_once or self.hosts)
        slicing, *sliced = (
            slicing_of(call, schedule, nbytes, self.size, self._profile)
            if in_slices
            else (UNSLICED, 0, inf)
        )
        least = max(decided[0], copied[0], sliced[0])
        limit = min(decided[1], copied[1], sliced[1])
        make = self._program(call, decision, method.copying, slicing)
        return SharedRange(least, limit, make)

    def _program(
        self, call: Call, decision: Decision, copying: Copying, slicing: Slicing
    ) -> Callable[[], Program]:
        """Makes programs for calls of a kind, of a range of sizes."""
        rank, size = self.rank, self.size
        return partial(
            Program,
            self._template(call, decision, rank, slicing, self.hosts),
            call.kernel(self.size),
            size if call.op in DIVIDED else 0,
            record_of(call, decision.name),
            copying,
            call.dtype.itemsize,
            call.shares(size),
            blocks_passed(call, rank, size),
        )

    def _decision(self, call: Call) -> Decision:
        """The decision for a plain call, whose schedule is proved."""
        return self._decide(call, call.nbytes(self.size), call.counts)[0]

    def _decide(
        self, call: Call, nbytes: int, counts: tuple[int, ...] | None
    ) -> tuple[Decision, float, float]:
        """The decision for calls of a kind, whose schedule is proved.

        It holds from a least size up to a limit; if both are equal, for these counts.
        """
        question, pricer = self._question(call, nbytes, counts), self.pricer
        if counts and self._placed is not None and question.algorithm is not None:
            from collalgo.selection.on_matrix import by_blocks

            question, pricer = by_blocks(question, pricer)
        found = decisions(question, pricer)
        of_size = found.at(question.nbytes)
        decision = of_size.for_blocks(question.block_nbytes)
        if not decision.candidate.row.of_library:
            call.check_order()
        if decision.unproved:
            row = decision.candidate.row
            pricer.prove(row, decision.schedule, call.root)
        of_counts = decision is not of_size or pricer is not self.pricer
        return decision, *((0, 0) if of_counts else found.around(nbytes))

    def _question(
        self, call: Call, nbytes: int, counts: tuple[int, ...] | None
    ) -> Question:
        """The question of a decision, whose price is sought if a formula decides."""
        asked = Question(
            call.collective,
            nbytes,
            call.algorithm,
            bool(call.reproducible),
            block_nbytes=counts and tuple(n * call.dtype.itemsize for n in counts),
            root=call.root,
            by_formulas=self._ahead is not None,
        )
        if self._ahead is not None:
            self._ahead.add(asked)
        return asked

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
        if self.size == 1 and call.op in EXACT_OPS:  # a kernel writes it as a sum
            averaging = Averaging.ON_EVERY_RANK
        return TemplateKey(
            call.collective, decision.schedule, rank, self.size, call.root, averaging,
            slicing, tuple(hosts),
        ).template()  # fmt: skip
