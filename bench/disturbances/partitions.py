"""A network that is cut in two, on a cluster of namespaces."""

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from collalgo.bench.cluster.kernel import down, inside, set_link, up
from collalgo.bench.cluster.layout import Layout, layout_of_file
from collalgo.bench.disturbances.etcd import Place, etcd
from collalgo.bench.disturbances.members import PATIENCE, Joined, Member, members
from collalgo.bench.disturbances.trials import Trials, trial

#: The files of clusters.
FILES = Path(__file__).parents[1] / "cluster" / "files"


class Cut(NamedTuple):
    """A cluster by the name of its file, and the link whose cut leaves two parts."""

    cluster: str
    link: str


TWO_AND_THREE = Cut("two_and_three", "rack0 - rack1")
TWO_AND_TWO = Cut("racks", "rack0 - spine")


class Partition:
    """A job with a member on each host of a cluster that can be cut in two."""

    def __init__(self, layout: Layout, link: str, made: Sequence[Member], epoch: int):
        self._layout, self._link = layout, link
        self.members, self.epoch = made, epoch

    def cut(self) -> float:
        """Cut the network: the time."""
        set_link(self._layout, self._link, working=False)
        return time.monotonic()

    def heal(self) -> float:
        """Restore the network: the time."""
        began = time.monotonic()
        set_link(self._layout, self._link, working=True)
        return began

    def joined(
        self, side: Sequence[Member], size: int, timeout: float = PATIENCE
    ) -> list[Joined]:
        """The next epoch of this size, as each member of a side has joined it."""
        found = [each.until(size, self.epoch, timeout) for each in side]
        self.epoch = found[0].epoch
        return found


def place_on(layout: Layout, host: str) -> Place:
    """The place of a member of etcd on a host of a cluster."""
    address = layout.interfaces(host)[0].address.partition("/")[0]
    return Place(address, prefix=inside(layout, host))


@contextmanager
def cluster(name: str) -> Iterator[Layout]:
    """A cluster of this process, by the name of its file, that is up."""
    layout = layout_of_file(FILES / f"{name}.yaml")
    layout.name = f"{name}-{os.getpid()}"  # several may run at once
    up(layout)
    try:
        yield layout
    finally:
        down(layout)


@contextmanager
def partition(
    cut: Cut,
    least: int,
    stores: int,
    options: Sequence[str] = (),
    program: str = "",
) -> Iterator[Partition]:
    """A job on a cluster, with a member of etcd on each of its first hosts."""
    with cluster(cut.cluster) as layout:
        prefixes = [inside(layout, host) for host in layout.hosts]
        places = [place_on(layout, host) for host in layout.hosts[:stores]]
        with (
            etcd(places, options, program) as servers,
            members(servers.url, least, prefixes) as (made, epoch),
        ):
            yield Partition(layout, cut.link, made, epoch)


def three_against_two(options: Sequence[str], program: str = "") -> Trials:
    """Cut off two of five: the times until the others continue, and until all are back.

    Raises
    ------
    AssertionError
        If one of the two has committed a step while it was cut off.
    """
    with partition(TWO_AND_THREE, 3, 5, options, program) as job:
        two, three = job.members[:2], job.members[2:]
        while True:
            with trial() as times:
                cut = job.cut()
                went_on = max(each.time for each in job.joined(three, 3))
                times.append(went_on - cut)
                time.sleep(1.0)
                healed = job.heal()
                back = job.joined(job.members, 5)
                for each in back[: len(two)]:
                    assert not went_on < each.committed < healed
                times.append(max(each.time for each in back) - healed)
            yield times
            _settle()


def two_against_two(options: Sequence[str], program: str = "") -> Trials:
    """Cut four in halves, of which one has two of three stores: as for three and two.

    Raises
    ------
    AssertionError
        If the other half has continued, too.
    """
    with partition(TWO_AND_TWO, 2, 3, options, program) as job:
        first, second = job.members[:2], job.members[2:]
        while True:
            with trial() as times:
                before, cut = job.epoch, job.cut()
                went_on = max(each.time for each in job.joined(first, 2))
                times.append(went_on - cut)
                assert not any(goes_on(each, 2, before) for each in second)
                healed = job.heal()
                back = job.joined(job.members, 4)
                times.append(max(each.time for each in back) - healed)
            yield times
            _settle()


def _settle() -> None:
    """Let the network be whole for a while, of random length."""
    time.sleep(random.uniform(0.5, 1.5))


def goes_on(member: Member, size: int, epoch: int, seconds: float = 1.0) -> bool:
    """Whether a member joins an epoch of some size after another in some seconds."""
    try:
        member.until(size, epoch, seconds)
    except TimeoutError:
        return False
    return True
