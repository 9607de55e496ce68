"""From the options of ``collalgo run`` to a plan that starts the ranks."""

from typing import Protocol

from collalgo.launch.choice import Choice, Starter, choose
from collalgo.launch.hosts import MAX_SLOTS, assign_ranks, check_ranks
from collalgo.launch.options import LaunchOptions, OptionError
from collalgo.launch.placement import Placement

#: Who starts the ranks of a node of an elastic job.
_OF_NODE = Choice(Starter.HERE, "--elastic is for the ranks of this node")


class LaunchPlan(Protocol):
    """A job that is ready to be started."""

    def run(self) -> int:
        """Run the job to its end: its exit code."""

    def placement(self) -> Placement:
        """Where its ranks would run, and by which command lines."""


def launch_plan(options: LaunchOptions) -> tuple[LaunchPlan, Choice]:
    """The plan for some options, and who starts the ranks and why.

    Raises
    ------
    OptionError
        If the options contradict each other.
    BootstrapError
        If the ranks do not fit on the hosts, or there is no program to start them.
    """
    _check_nodes(options)
    choice = _OF_NODE if options.elastic else choose(options)
    size = options.per_node or 1 if options.elastic else _size(options, choice)
    _check_elastic(options, size, choice)
    if choice.starter is Starter.HERE:
        from collalgo.launch.local import LocalLaunch

        _check_local(options, size)
        if options.is_elastic:
            from collalgo.launch.restarting import restarting_launch

            return restarting_launch(options, size), choice
        return LocalLaunch.of_job(options, size), choice
    check_ranks(size)
    if choice.starter is Starter.SSH:
        from collalgo.launch.ssh import SshLaunch

        _refuse_launcher_words(options)
        return SshLaunch(options, assign_ranks(choice.hosts, size)), choice
    from collalgo.launch.delegate import DelegatedLaunch

    return DelegatedLaunch.of_job(options, size, choice), choice


def _size(options: LaunchOptions, choice: Choice) -> int:
    """The number of ranks: one for each slot of the hosts, unless it is given."""
    size = options.size or sum(host.slots for host in choice.hosts)
    if not size and choice.starter is Starter.SLURM:
        from collalgo.launch.allocation import allocation

        given = allocation()
        size = sum(host.slots for host in given.hosts) if given else 0
    if not size:
        raise OptionError(
            "the number of ranks is missing; pass -n 4, or hosts with slots"
        )
    return size


def _check_nodes(options: LaunchOptions) -> None:
    """Refuse the options of a node where they contradict each other."""
    given = options.nodes, options.per_node, options.rendezvous
    if not options.elastic and given != (None, None, None):
        raise OptionError("--nodes, --per-node and --rendezvous need --elastic")
    if not options.elastic:
        return
    if options.nodes is None or options.rendezvous is None:
        raise OptionError(
            "--elastic needs --nodes, as 1:4, and --rendezvous, as etcd://HOST:2379"
        )
    if options.size is not None or options.least is not None:
        raise OptionError("with --elastic pass --per-node and --nodes, not -n or --min")
    if options.hosts or options.delegates:
        raise OptionError("--elastic runs one node; start it on each host instead")


def _check_elastic(options: LaunchOptions, size: int, choice: Choice) -> None:
    """Refuse limits of ranks that may die where they mean nothing."""
    if options.is_elastic and choice.starter is not Starter.HERE:
        raise OptionError(
            "--min and --max-restarts are for ranks of this host, but the ranks are "
            f"started by {choice}"
        )
    if options.least is not None and options.least > size:
        raise OptionError(f"--min {options.least} is more than the {size} ranks")


def _check_local(options: LaunchOptions, size: int) -> None:
    _refuse_launcher_words(options)
    if size > MAX_SLOTS:
        raise OptionError(
            f"{size} ranks are more than the {MAX_SLOTS} that one host takes; pass "
            "fewer, or more hosts: -H a:4,b:4"
        )


def _refuse_launcher_words(options: LaunchOptions) -> None:
    if options.launcher_words:
        raise OptionError(
            "--mpi-args are for another launcher, but collalgo starts the ranks "
            "itself; add --mpi"
        )
