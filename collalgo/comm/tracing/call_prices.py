"""The price and the bound of each call of a trace, and the reasons of slow calls."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from collalgo.base.units import counted, human_time
from collalgo.comm.call_text import EXCHANGE, ON_DEVICES
from collalgo.comm.tracing.track import Track, with_zeros
from collalgo.cost.host_profile import host_profile
from collalgo.engine.call import Call
from collalgo.errors import CollalgoError
from collalgo.schedule.collective import COLLECTIVES

if TYPE_CHECKING:
    from collalgo.selection.pricer import Pricer

#: A call is slow if it takes more than its price by this factor and these seconds,
#: which a trace itself and the wake-up of a rank may take.
SLOW, UNNOTICED = 2.0, 20e-6


class Expectation(NamedTuple):
    """The price of a call, and its lower bound if it is known, in seconds."""

    price: float
    bound: float | None


class CallPrices:
    """The prices of the calls of a communicator, by their records.

    Parameters
    ----------
    pricer
        The prices by which the communicator chooses.
    """

    def __init__(self, pricer: "Pricer"):
        self._pricer = pricer
        self._found: dict[tuple[object, ...], Expectation | None] = {}

    def of(self, record: dict[str, Any]) -> Expectation | None:
        """The price and the bound of a recorded call; None if they are unknown.

        They are unknown for calls with counts, on devices, of the library, and by a
        schedule of the user.
        """
        collective, algorithm = record["collective"], record["algorithm"]
        is_other = algorithm.startswith(EXCHANGE) or algorithm.endswith(ON_DEVICES)
        if collective not in COLLECTIVES or is_other:
            return None
        key = collective, algorithm, record["count"], record["dtype"]
        if key not in self._found:
            self._found[key] = self._price(*key)
        return self._found[key]

    def _price(
        self, collective: str, algorithm: str, count: int, dtype: str
    ) -> Expectation | None:
        from collalgo.selection.choice import select  # which few traces need

        try:
            call = Call(collective, np.dtype(dtype), count)
            nbytes = call.nbytes(self._pricer.size)
            found = select(
                collective, nbytes, topology=self._pricer, algorithm=algorithm
            )
        except (CollalgoError, TypeError, ValueError):
            return None
        return Expectation(float(found.seconds), found.bound_seconds)


class RankTimes(NamedTuple):
    """The times of a rank in a call, in seconds on one clock."""

    rank: int
    begun: float
    ended: float
    place: str


class Step(NamedTuple):
    """A step of a rank in a call, in seconds, and the ranks that it received from."""

    rank: int
    number: int
    begun: float
    ended: float
    sources: tuple[int, ...]


def add_prices(tracks: Sequence[Track], pricer: "Pricer") -> None:
    """Add price and bound to the calls of a trace, and the reasons of slow ones."""
    prices, hosts = CallPrices(pricer), [track.host for track in tracks]
    cores = host_profile().cores
    calls, steps = _calls(tracks), _steps(tracks)
    for number, records in calls.items():
        if expected := prices.of(next(iter(records.values()))[0]):
            about: dict[str, Any] = {"price": expected.price}
            if expected.bound is not None:
                about["bound"] = expected.bound
            if len(records) == len(tracks):
                times = [one for _, one in records.values()]
                about["slow"] = reason(times, steps[number], expected, hosts, cores)
            for record, _ in records.values():
                record.update({name: value for name, value in about.items() if value})


def _calls(
    tracks: Sequence[Track],
) -> dict[int, dict[int, tuple[dict[str, Any], RankTimes]]]:
    """The records and the times of each call that has ended, by call and rank."""
    found: dict[int, dict[int, tuple[dict[str, Any], RankTimes]]] = defaultdict(dict)
    for rank, (track, zero) in enumerate(with_zeros(tracks)):
        for call in track.calls:
            if call["ended"] is not None:
                times = _seconds(call, zero)
                own = RankTimes(rank, *times, str(call.get("place") or ""))
                found[call["sequence"]][rank] = call, own
    return found


def _steps(tracks: Sequence[Track]) -> dict[int, list[Step]]:
    """The steps of all ranks in each call."""
    found: dict[int, list[Step]] = defaultdict(list)
    for rank, (track, zero) in enumerate(with_zeros(tracks)):
        for step in track.steps:
            sources = tuple({peer: None for peer, *_ in step["received"]})
            times = _seconds(step, zero)
            found[step["call"]].append(Step(rank, step["step"], *times, sources))
    return found


def _seconds(what: dict[str, Any], zero: int) -> tuple[float, float]:
    return (what["begun"] - zero) / 1e9, (what["ended"] - zero) / 1e9


def reason(
    ranks: Sequence[RankTimes],
    steps: Sequence[Step],
    expected: Expectation,
    hosts: Sequence[int],
    cores: int,
) -> str:
    """The likely reason why a call took over twice its price, or "".

    Parameters
    ----------
    ranks
        The times of each rank.
    steps
        The steps of all ranks, if they are traced.
    expected
        The price of the call.
    hosts
        The host of each rank.
    cores
        The cores that the ranks of a host may use.
    """
    took = max(one.ended - one.begun for one in ranks)
    if took <= max(SLOW * expected.price, expected.price + UNNOTICED):
        return ""
    begins = sorted(ranks, key=lambda one: one.begun)
    first, last = begins[0], begins[-1]
    late = last.begun - first.begun
    crowd = max(Counter(hosts).values())
    if late >= (took - expected.price) / 2:
        place = f" at {last.place}" if last.place else ""
        why = f"rank {last.rank} began it {human_time(late)} after others{place}"
    elif crowd > cores:
        why = f"{crowd} ranks share {counted(cores, 'core')}"
    else:
        why = _of_steps(steps, last.begun, hosts)
    times = took / expected.price
    return f"{human_time(took)}, {times:.{times < 100:d}f} times its price: {why}"


def _of_steps(steps: Sequence[Step], since: float, hosts: Sequence[int]) -> str:
    """The step that took longest once all ranks were in the call."""
    if not steps:
        return "all ranks were in it in time, and its steps are not traced"

    def seconds(step: Step) -> float:
        return step.ended - max(step.begun, since)

    slowest = max(steps, key=seconds)
    rank, others = slowest.rank, slowest.sources
    text = f"step {slowest.number} of rank {rank} took {human_time(seconds(slowest))}"
    if not others:
        return f"{text} with nothing to receive; likely its core was busy"
    far = [other for other in others if hosts[other] != hosts[rank]]
    if far:
        return f"{text}, receiving from rank {far[0]} on another host; likely the link"
    return f"{text}, receiving from rank {others[0]}; likely the host was busy"
