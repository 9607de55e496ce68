"""The planner: the plans of collectives on the links of a topology."""

from functools import cached_property, partial, reduce
from threading import RLock
from typing import NamedTuple, TypeAlias

from collalgo.cost.messages import Messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line, rounds as in_rounds
from collalgo.schedule.collective import COLLECTIVES
from collalgo.synthesis.kept_plans import KeptPlans
from collalgo.synthesis.made_plans import MADE, STEPS, MadePlan
from collalgo.synthesis.paces import EVEN, PACES, Lengths
from collalgo.synthesis.pair_links import MANY, PairLinks
from collalgo.synthesis.plan_price import is_by_loads, line_of
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.traffic import Traffic
from collalgo.synthesis.tree_transfers import most_transfers
from collalgo.synthesis.wave_packing import edges_of_waves
from collalgo.synthesis.ways import OF_MANY, PLANNED, SHARES, WAVES, Stage
from collalgo.topology.model import Topology

#: The most ranks of an alltoall; of other collectives on equal hosts; of these on
#: unlike hosts, between which routes take long to find.
MOST_RANKS, MOST_ALIKE, MOST_UNLIKE = MANY, 1024, 320

#: The default number of steps in which the busiest link carries its load.
ROUNDS = 16

#: The number of peers with which a rank combines a unit in a step; with one, steps are
#: even.
ONE, SEVERAL = "one", "several"
PEERS = (ONE, SEVERAL)


class Form(NamedTuple):
    """A form of a plan.

    Attributes
    ----------
    way : str
        As in :data:`PLANNED`.
    rounds : int
        The number of steps in which the busiest link is to carry its load; there are
        more, until all ranks have data to send and until all are done.
    pace : str
        One of :data:`PACES`.
    peers : str
        One of :data:`PEERS`.
    """

    way: str
    rounds: int = ROUNDS
    pace: str = EVEN
    peers: str = ONE

    def lengths(self, reduces: bool) -> Lengths:
        """The lengths of the steps of a stage."""
        return PACES[EVEN if reduces and self.peers == ONE else self.pace]

    @property
    def parts_of_round(self) -> int:
        """The parts of a unit in waves in an even step, the same in all stages."""
        return PACES[self.pace].parts_of(self.rounds)

    def least_steps(self, collective: str) -> int:
        """The number of steps that the busiest link needs."""
        return sum(
            self.lengths(stage.reduces).least_steps(self.rounds)
            for stage in PLANNED[collective][self.way]
        )


#: A stage, its root, and the part of the form that the stage depends on.
PlanKey: TypeAlias = tuple[Stage, int, Form]


def plan_keys(collective: str, form: Form, root: int = 0) -> list[PlanKey]:
    """The key of the plan of each stage of a collective."""
    return [
        (stage, root, form._replace(way="", peers=form.peers if stage.reduces else ONE))
        for stage in PLANNED[collective][form.way]
    ]


def can_plan(collective: str, placement: Placement) -> bool:
    """Whether a collective is planned for ranks: not too many, on a topology."""
    if collective not in PLANNED or not isinstance(placement.machine, Topology):
        return False
    most = MOST_ALIKE if placement.cluster is not None else MOST_UNLIKE
    return 2 <= placement.size <= (most if collective in OF_MANY else MOST_RANKS)


class Planner:
    """Plans of collectives for ranks on a topology, kept while they are recent.

    Those that run are kept on disk, as later jobs may run them again.

    Parameters
    ----------
    placement
        The device of each rank, on a topology.

    Attributes
    ----------
    machine : str
        The identity of all that plans depend on.
    """

    def __init__(self, placement: Placement):
        self._placement = placement
        self.machine = placement.digest[:8]
        self._traffic: dict[tuple[Stage, int], Traffic] = {}
        self._lines: dict[PlanKey, Line] = {}
        self._inputs = placement.digest
        self._on_disk = KeptPlans(self._inputs, placement.size)
        self._lock = RLock()  # ranks that are threads share the plans

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._placement.size

    @cached_property
    def routes(self) -> RankRoutes:
        """The routes between the ranks."""
        return RankRoutes(self._placement)

    @cached_property
    def pairs(self) -> PairLinks:
        """The links between the ranks."""
        return PairLinks.of(self.routes)

    @cached_property
    def _reversed_pairs(self) -> PairLinks:
        """The links from each target to each source, for trees towards their roots."""
        found = PairLinks.of(self.routes, reverse=True)
        return self.pairs if self.pairs.is_like(found) else found

    def steps(self, collective: str, form: Form, root: int = 0) -> PlannedSteps:
        """The steps of a collective in a form, from or to a root, to be run."""
        keys = tuple(plan_keys(collective, form, root))

        def make() -> PlannedSteps:
            stages = {key: self._steps_of(key) for key in keys}
            for key, steps in stages.items():
                self._on_disk.keep(key, steps)
            return PlannedSteps.of_stages([*stages.values()])

        with self._lock:
            return STEPS.get((self._inputs, keys), make)

    def _steps_of(self, key: PlanKey) -> PlannedSteps:
        """The steps of a stage."""
        if found := self._on_disk.recalled(key):
            return found
        (stage, *_), (plan, turning, _) = key, self._made(key)
        plan = plan.reversed(stage.reduces) if stage.reverse else plan
        return PlannedSteps(plan, turning)

    def _made(self, key: PlanKey) -> MadePlan:
        """The plan of a stage; ways and collectives share stages."""
        stage, root, form = key
        reverse = stage.reverse and self._reversed_pairs is not self.pairs
        key = stage._replace(reverse=reverse), root, form  # both ways may be alike
        return MADE.get((self._inputs, key), partial(self._planned, key))

    def _planned(self, key: PlanKey) -> MadePlan:
        """Make the plan of a stage."""
        stage, root, form = key
        traffic, lengths = self._traffic_of(stage, root), form.lengths(stage.reduces)
        several, parts = form.peers == SEVERAL, form.parts_of_round
        plan = traffic.represented(form.rounds, lengths, several, parts)
        line = line_of(traffic.pairs, plan, self.routes.routing.link_model)
        return MadePlan(plan, traffic.pairs.turning, line)

    def _traffic_of(self, stage: Stage, root: int) -> Traffic:
        """The traffic of a stage."""
        key = stage, root
        if key not in self._traffic:
            pairs = self._reversed_pairs if stage.reverse else self.pairs
            self._traffic[key] = stage.make(pairs, root, stage.reduces)
        return self._traffic[key]

    def obstacle(self, collective: str, form: Form) -> str | None:
        """The reason why a form cannot be planned, or None; the root is rank 0."""
        stages, parts = PLANNED[collective][form.way], form.rounds * form.parts_of_round
        if form.way == SHARES and self._reversed_pairs is not self.pairs:
            return "links differ in their directions, so the trees of shares do, too"
        if form.way != WAVES:
            return None
        if self.size > MANY and not COLLECTIVES[collective].rooted:
            return f"waves without a root are for at most {MANY} ranks"
        limit = most_transfers(self.size, turns=False)
        least, most = edges_of_waves(self.size, COLLECTIVES[collective].blocks > 0)
        if parts * most <= limit:
            return None
        if parts * least > limit:
            made = f"{form.rounds} rounds make at least {parts * least} transfers"
            return f"{made}, but a plan has at most {limit}; pass fewer rounds"
        with self._lock:
            asked = form.rounds, form.parts_of_round
            every = [self._traffic_of(one, 0).obstacle(*asked) for one in stages]
        return next(filter(None, every), None)

    def is_tried(self, form: Form) -> bool:
        """Whether a form may be cheap: shares only of few ranks that are not alike."""
        if form.way != SHARES:
            return True
        return self.size <= MANY and self.pairs.turned.turning.count < self.size

    def least(self, collective: str, form: Form) -> Line:
        """A lower bound of the price, by the steps and the load of the busiest link."""
        stages = PLANNED[collective][form.way]
        steps = [form.lengths(one.reduces).least_steps(form.rounds) for one in stages]
        with self._lock:
            every = [self._traffic_of(stage, 0) for stage in stages]
        pairs = zip(steps, every, strict=True)
        latency = sum(number * one.least_latency for number, one in pairs)
        busy = sum(one.busy * one.blocks.largest for one in every)
        return Line(latency, busy * self.buffers(collective))

    def price(self, collective: str, form: Form) -> Line:
        """The price of a collective from rank 0, over the bytes of its buffer."""
        routing, keys = self.routes.routing, plan_keys(collective, form)
        with self._lock:
            if is_by_loads(routing.link_model):
                line = reduce(Line.then, map(self._line, keys))
            else:  # stages depend on each other
                line = in_rounds(self.messages(collective, form), routing).line
        return line.over(self.buffers(collective))

    def _line(self, key: PlanKey) -> Line:
        """The price of a stage, over the bytes of a whole buffer."""
        if key not in self._lines:
            if kept := self._on_disk.recalled(key):
                self._lines[key] = in_rounds(kept.messages, self.routes.routing).line
            else:
                self._lines[key] = self._made(key).line
        return self._lines[key]

    def messages(self, collective: str, form: Form) -> Messages:
        """The messages of a collective from rank 0."""
        with self._lock:
            stages = [*map(self._steps_of, plan_keys(collective, form))]
        return PlannedSteps.of_stages(stages).messages

    def buffers(self, collective: str) -> int:
        """The number of buffers whose bytes are those of the whole data."""
        return COLLECTIVES[collective].buffers(self.size)
