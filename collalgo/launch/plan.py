"""From the options of ``collalgo run`` to a plan that starts the ranks."""

from typing import Protocol

from collalgo.launch.choice import Choice, Starter, choose
from collalgo.launch.hosts import MAX_SLOTS, assign_ranks, check_ranks
from collalgo.launch.options import LaunchOptions, OptionError
from collalgo.launch.placement import Placement

#: Who starts the ranks of a node of an elastic job.
_OF_NODE = Choice(Starter.HERE, "--elastic is for the ranks of this node")

#: Who starts those of an elastic job whose hosts a script prints.
_OF_SCRIPT = Choice(Starter.SSH, "--discover tells the hosts")


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
    if options.discover is not None:
        from collalgo.launch.elastic_launch import ElasticLaunch

        return ElasticLaunch(options), _OF_SCRIPT
    choice = _OF_NODE if options.elastic else choose(options)
    size = options.per_node or 1 if options.elastic else _size(options, choice)
    _check_elastic(options, size, choice)
    return _plan(options, size, choice), choice


def _plan(options: LaunchOptions, size: int, choice: Choice) -> LaunchPlan:
    """The plan of a job of ``size`` ranks, by who starts them."""
    if choice.starter is Starter.HERE:
        _check_local(options, size)
        return _local_plan(options, size)
    check_ranks(size)
    if choice.starter is Starter.SSH:
        _refuse_launcher_words(options)
        return _ssh_plan(options, size, choice)
    from collalgo.launch.delegate import DelegatedLaunch

    return DelegatedLaunch.of_job(options, size, choice)


def _local_plan(options: LaunchOptions, size: int) -> LaunchPlan:
    if options.is_elastic:
        from collalgo.launch.restarting import restarting_launch

        return restarting_launch(options, size)
    from collalgo.launch.local import LocalLaunch

    return LocalLaunch.of_job(options, size)


def _ssh_plan(options: LaunchOptions, size: int, choice: Choice) -> LaunchPlan:
    if options.is_elastic:
        from collalgo.launch.elastic_launch import ElasticLaunch

        return ElasticLaunch.of_hosts(options, list(choice.hosts), size)
    from collalgo.launch.ssh import SshLaunch

    return SshLaunch(options, assign_ranks(choice.hosts, size))


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
    given = options.nodes, options.per_node, options.rendezvous, options.discover
    if not options.elastic and any(each is not None for each in given):
        raise OptionError(
            "--nodes, --per-node, --rendezvous and --discover need --elastic"
        )
    if options.elastic:
        _check_meeting(options)


def _check_meeting(options: LaunchOptions) -> None:
    """Refuse an elastic job whose nodes have no place to meet, or two."""
    if options.discover is not None and options.rendezvous is not None:
        raise OptionError(
            "with --discover the launcher holds the store; pass no --rendezvous"
        )
    if options.discover is None and None in (options.nodes, options.rendezvous):
        raise OptionError(
            "--elastic needs --nodes, as 1:4, and --rendezvous, as etcd://HOST:2379; "
            "or --discover"
        )
    if options.size is not None or options.least is not None:
        raise OptionError("with --elastic pass --per-node and --nodes, not -n or --min")
    if options.hosts or options.delegates:
        raise OptionError(
            "--elastic runs one node; start it on each host instead, or pass --discover"
        )


def _check_elastic(options: LaunchOptions, size: int, choice: Choice) -> None:
    """Refuse limits of ranks that may die where they mean nothing."""
    if options.is_elastic and choice.starter not in (Starter.HERE, Starter.SSH):
        raise OptionError(
            "--min and --max-restarts are for ranks that collalgo starts itself, but "
            f"they are started by {choice}"
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
