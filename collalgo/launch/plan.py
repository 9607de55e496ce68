"""From the options of ``collalgo run`` to a plan: the launcher and its processes."""

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from collalgo.base.environment import JOB
from collalgo.bootstrap.launcher_variables import TORCH, place_in_job
from collalgo.launch.allocation import Allocation, allocation
from collalgo.launch.batch_command import in_lsf, in_slurm
from collalgo.launch.hosts import MAX_SLOTS, Host, assign_ranks, check_ranks
from collalgo.launch.options import (
    Choice,
    Launcher,
    LaunchOptions,
    OptionError,
    Starter,
)
from collalgo.launch.placement import Placement

#: The reason for the launcher of a node of an elastic job.
_OF_NODE = Choice(Starter.HERE, "--elastic is for the ranks of this node")

#: The reason for the launcher of an elastic job whose hosts a script prints.
_OF_SCRIPT = Choice(Starter.SSH, "--discover names the hosts")


class LaunchPlan(Protocol):
    """A job that is ready to be started."""

    def run(self) -> int:
        """Run the job to its end: its exit code."""

    def placement(self) -> Placement:
        """The placement of its ranks, and the command lines."""


def launch_plan(options: LaunchOptions) -> tuple[LaunchPlan, Choice]:
    """The plan for some options, and the launcher with the reason of its choice.

    Raises
    ------
    OptionError
        If the options contradict each other.
    BootstrapError
        If the ranks do not fit on the hosts, or there is no program to start them.
    """
    _check_nodes(options)
    _refuse_inside_job(options)
    if options.discover is not None:
        from collalgo.launch.elastic_launch import ElasticLaunch

        return ElasticLaunch(options), _OF_SCRIPT
    choice = _OF_NODE if options.elastic else choose(options)
    size = number_of_ranks(options, choice)
    _check_elastic(options, size, choice)
    return _plan(options, size, choice), choice


def choose(
    options: LaunchOptions, environment: Mapping[str, str] | None = None
) -> Choice:
    """The launcher of the ranks.

    The user decides, by a launcher or by hosts, or else the batch system whose job this
    process is in, if it has several hosts.
    """
    env = os.environ if environment is None else environment
    if options.launcher is Launcher.AUTO and options.hosts and not options.delegates:
        return Choice(Starter.SSH, "the hosts are named", options.hosts)
    given = allocation(env)
    hosts = options.hosts or (given.hosts if given else ())
    if options.launcher is not Launcher.AUTO:
        return _asked(options, hosts)
    if options.delegates:
        return _delegated(options, hosts, env)
    if given is not None and len(given.hosts) > 1:
        return _in_job(given, env)
    return Choice(Starter.HERE, "no hosts are named")


def _asked(options: LaunchOptions, hosts: Sequence[Host]) -> Choice:
    """The choice of the user; a batch system knows the hosts of its job."""
    reason = f"--launcher {options.launcher.value} was given"
    if options.launcher is Launcher.SSH:
        if options.delegates:
            raise OptionError(
                "--mpi is for another launcher, but with --launcher ssh collalgo "
                "starts the ranks itself; pass one of them"
            )
        starter = Starter.SSH if hosts else Starter.HERE
        return Choice(starter, reason, hosts)
    starter = Starter[options.launcher.name]
    if starter is Starter.SLURM:
        hosts = options.hosts
    elif starter is Starter.LSF:
        hosts = options.hosts or _computing(hosts)
    return Choice(starter, reason, hosts)


def _computing(hosts: Sequence[Host]) -> Sequence[Host]:
    """The hosts of a job of LSF that jsrun uses: not the one that runs its script.

    LSF counts that one first, with a single slot, if it does not compute.
    """
    first = hosts[0].slots if hosts else 0
    return hosts[1:] if first == 1 and any(h.slots > 1 for h in hosts) else hosts


def _delegated(
    options: LaunchOptions, hosts: Sequence[Host], env: Mapping[str, str]
) -> Choice:
    """The launcher of the batch system, or else mpiexec."""
    if in_slurm(env):
        return Choice(Starter.SLURM, "--mpi was given in a job of Slurm", options.hosts)
    if in_lsf(env):
        own = options.hosts or _computing(hosts)
        return Choice(Starter.LSF, "--mpi was given in a job of LSF", own)
    return Choice(Starter.MPI, "--mpi was given", hosts)


def _in_job(given: Allocation, env: Mapping[str, str]) -> Choice:
    """The launcher of the batch system that has given several hosts, or ssh."""
    words = f"{given.source} names {len(given.hosts)} hosts of {given.system}"
    if given.system == "Slurm":
        if "SLURM_STEP_ID" in env:
            return Choice(Starter.HERE, "this is a step of a job of Slurm")
        if in_slurm(env):
            return Choice(Starter.SLURM, words)
    if given.system == "LSF" and in_lsf(env):
        return Choice(Starter.LSF, words, _computing(given.hosts))
    return Choice(Starter.SSH, words, given.hosts)


def _plan(options: LaunchOptions, size: int, choice: Choice) -> LaunchPlan:
    """The plan of a job of ``size`` ranks, by their launcher."""
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


def number_of_ranks(options: LaunchOptions, choice: Choice) -> int:
    """The number of ranks: one for each slot of the hosts, unless it is given.

    Of an elastic job it is that of this node; 0 where a script prints the hosts.

    Raises
    ------
    OptionError
        If neither the options nor the hosts tell it.
    """
    if options.elastic:
        return 0 if options.discover is not None else options.per_node or 1
    size = options.size or sum(host.slots for host in choice.hosts)
    if not size and choice.starter is Starter.SLURM:
        given = allocation()
        size = sum(host.slots for host in given.hosts) if given else 0
    if not size:
        raise OptionError(
            "the number of ranks is missing; pass -n 4, or hosts with slots"
        )
    return size


def _refuse_inside_job(options: LaunchOptions) -> None:
    """Refuse to be one of several launchers of another, unless each runs a node."""
    if options.elastic:
        return
    _refuse_in_rank(os.environ)
    found = place_in_job(os.environ)
    if found is not None:
        launcher, variable, rank, size = found
        raise OptionError(
            f"this is one of {size} launchers, started by {launcher} ({variable}="
            f"{rank}), each of which would start a job of its own; use either "
            f"{launcher} or collalgo run: `{launcher} -n {size} python script.py` or "
            f"`collalgo run -n {size} script.py`. If you want {size} jobs, unset "
            f"{variable}"
        )


def _refuse_in_rank(env: Mapping[str, str]) -> None:
    """Refuse to be started by one of several ranks of ``collalgo run``."""
    rank, size = (env.get(name, "") for name in TORCH[:2])
    if JOB.given(env) and size != "1":
        who = f"rank {rank} of {size}" if rank and size else "a rank"
        raise OptionError(
            f"collalgo run was called within {who} of another collalgo run, so each "
            "rank would start a job of its own; use one collalgo run, or collalgo."
            f"spawn in a rank. If each rank shall start a job, unset {JOB.name}"
        )


def _check_nodes(options: LaunchOptions) -> None:
    """Refuse the options of a node where they contradict each other."""
    given = options.nodes, options.per_node, options.rendezvous, options.discover
    if not options.elastic and any(each is not None for each in given):
        raise OptionError(
            "--nodes, --per-node, --rendezvous and --discover need --elastic"
        )
    if options.elastic:
        _check_rendezvous(options)


def _check_rendezvous(options: LaunchOptions) -> None:
    """Refuse an elastic job with no rendezvous for its nodes, or two."""
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
    if options.rendezvous is not None:
        _check_url(options.rendezvous, options.job)


def _check_url(url: str, job: str) -> None:
    """Refuse a URL or an id that names no job."""
    from collalgo.bootstrap.store.at_url import replicated_at, store_place

    try:
        place = store_place(url, job)
        if place.url.scheme == "replicated":
            replicated_at(place)  # which counts its members
    except ValueError as error:
        raise OptionError(f"--rendezvous and --id: {error}") from None


def _check_elastic(options: LaunchOptions, size: int, choice: Choice) -> None:
    """Refuse limits of restarts where ranks cannot be restarted."""
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
