"""Run a function on every rank, as new processes of this host or of several."""

import os
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from collalgo.base.arguments import wrong_type
from collalgo.base.environment import SECRET, STORE
from collalgo.base.integers import integer
from collalgo.bootstrap.launcher_variables import MOST_RANKS
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.timeouts import checked_timeout
from collalgo.comm.communicator import Communicator
from collalgo.errors import CollalgoError
from collalgo.launch.function_call import Call, decode_outcome
from collalgo.launch.function_store import GRACE, FunctionStore, opened, report_failures
from collalgo.launch.hosts import MAX_SLOTS, assign_ranks, hosts_of
from collalgo.launch.local import LocalLaunch
from collalgo.launch.options import START_SECONDS, LaunchOptions, SshOptions
from collalgo.launch.rank_function import Failure, raise_first
from collalgo.launch.signals import STOPS
from collalgo.launch.ssh import SshJob, SshLaunch
from collalgo.launch.supervision import RankFailure, Supervision

Result = TypeVar("Result")

#: The command line of a rank.
COMMAND = (sys.executable, "-m", "collalgo.launch.function_rank")


def spawn(
    fn: Callable[[Communicator], Result], size: int, *, timeout: float | None = None
) -> list[Result]:
    """Run ``fn(comm)`` on ``size`` ranks that are new processes of this host.

    The same as :func:`run` without hosts.

    Parameters
    ----------
    fn
        Called once on each rank with its communicator.
    size
        The number of ranks.
    timeout
        Seconds that calls wait for other ranks; see :func:`collalgo.init`.

    Returns
    -------
    list
        What each rank returned, by rank.

    Raises
    ------
    Exception
        The first that a rank raised; its ``__cause__`` names the rank and the place.
    CollalgoError
        If a process died without an exception.
    """
    size = integer(size, "size", "spawn", 1, MAX_SLOTS)
    call = _checked(fn, (), timeout).encode("spawn")
    return _run_here(call, LaunchOptions(COMMAND, is_function=True), size)


def run(
    fn: Callable[..., Result],
    args: Sequence[Any] = (),
    hosts: str | os.PathLike[str] | Sequence[str] | None = None,
    *,
    size: int | None = None,
    timeout: float | None = None,
    interfaces: Sequence[str] = (),
    ssh_port: int | None = None,
    ssh_identity: str | os.PathLike[str] | None = None,
    ssh_options: Sequence[str] = (),
    start_timeout: float = START_SECONDS,
    log_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> list[Result]:
    """Run ``fn(comm, *args)`` on the ranks of several hosts, also from a notebook.

    The hosts are reached as by ``collalgo run -H``: by ssh, if they are not this one,
    and with Python and collalgo at the same paths. Output appears here, with the rank
    before each line.

    Parameters
    ----------
    fn
        Called once on each rank with its communicator.
    args
        Further arguments.
    hosts
        Hosts and slots, as ``"a:4,b:4"`` or ``["a:4", "b:4"]``, or the path of a file
        of hosts (a ``Path``, or text with a slash); None: ``size`` ranks on this host.
    size
        The number of ranks; by default one for each slot of the hosts.
    timeout
        Seconds that calls wait for other ranks; see :func:`collalgo.init`.
    interfaces
        Interfaces between the hosts, as ``["eth0"]``; by default those that work.
    ssh_port, ssh_identity, ssh_options
        The port of ssh, a file with the private key, and options as
        ``["StrictHostKeyChecking=accept-new"]``.
    start_timeout
        Seconds that all hosts have to start.
    log_dir
        A folder for files with the output of each rank.
    verbose
        Whether to say on standard error how the ranks are started.

    Returns
    -------
    list
        What each rank returned, by rank.

    Raises
    ------
    Exception
        The first that a rank raised; its ``__cause__`` names the rank and the place.
    CollalgoError
        If a process died without an exception, or the call cannot be pickled.
    BootstrapError
        If a host cannot be used.

    Notes
    -----
    The function, its arguments and what ranks return or raise are pickled, at most 1
    GiB each. They pass through a store in this process, which takes nothing from
    processes without the secret of the job. Importable objects are pickled by name;
    lambdas, and functions typed at a prompt, by value, for which every host needs
    cloudpickle (``pip install 'collalgo[cloudpickle]'``). A script that is the main
    module is imported again by the ranks: it calls this below
    ``if __name__ == "__main__"``.

    Examples
    --------
    >>> import collalgo
    >>> losses = collalgo.run(train, (0.1,), "a:4,b:4")  # doctest: +SKIP
    """
    if isinstance(args, str) or not isinstance(args, Sequence):
        advice = "a tuple of arguments, as (0.1,); the number of ranks is size=4"
        raise wrong_type("run", "args", args, advice)
    call = _checked(fn, args, timeout).encode("run")
    options = LaunchOptions(
        COMMAND,
        size=None if size is None else integer(size, "size", "run", 1, MOST_RANKS),
        hosts=() if hosts is None else hosts_of(hosts),
        logs=None if log_dir is None else Path(log_dir),
        ssh=SshOptions(ssh_port, _path(ssh_identity), tuple(ssh_options)),
        start_timeout=start_timeout,
        interfaces=tuple(interfaces),
        verbose=verbose,
        is_function=True,
    )
    if options.hosts:
        return _run_on_hosts(call, options)
    return _run_here(call, options, integer(size, "size", "run", 1, MAX_SLOTS))


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


def _checked(
    fn: Callable[..., object], args: Sequence[Any], timeout: float | None
) -> Call:
    return Call(fn, tuple(args), None if timeout is None else checked_timeout(timeout))


def _run_here(call: bytes, options: LaunchOptions, size: int) -> list[Any]:
    """The results of ``size`` ranks on this host."""
    secret = secrets.token_bytes(32)
    with closing(Server(secret, "127.0.0.1")) as server:
        at = f"127.0.0.1:{server.port}"
        variables = {STORE.name: at, SECRET.name: secret.hex()}
        with opened(variables) as store:
            store.put_call(call)
            del variables[STORE.name]  # the ranks connect without it
            plan = LocalLaunch.of_job(
                replace(options, command=(*COMMAND, at)),
                size,
                Supervision(GRACE, store.tell, by_python=True),
                variables,
            )
            return _results(store, size, plan.run())


def _run_on_hosts(call: bytes, options: LaunchOptions) -> list[Any]:
    """The results of the ranks of several hosts."""
    positions = assign_ranks(options.hosts, options.size)

    def tell(failures: Sequence[RankFailure], others: bool) -> None:
        report_failures(job.variables, failures, others)

    plan = SshLaunch(options, positions)
    with (
        SshJob(plan, Supervision(GRACE, tell, by_python=True)) as job,
        opened(job.variables) as store,
    ):
        store.put_call(call)
        code = job.run()
        return _results(store, sum(map(len, positions.values())), code)


def _results(store: FunctionStore, size: int, code: int) -> list[Any]:
    """The results of all ranks, or the first failure.

    Parameters
    ----------
    store
        The store of the job.
    size
        The number of ranks.
    code
        The exit code of the job.
    """
    outcomes = [
        (arrival.rank, *decode_outcome(message, arrival.rank))
        for arrival, message in sorted(store.outcomes().items())
    ]
    results = {rank: result for rank, result, _ in outcomes}
    told = [each for _, each in sorted(store.failures().items())]
    if not told and code - 128 in STOPS:  # the launcher was asked to stop
        signal.raise_signal(code - 128)
    deaths = [_death(each) for each in told if each.rank not in results]
    raised = [failure for *_, failure in outcomes if failure is not None]
    silent = [
        _death(RankFailure(rank, f"rank {rank} ended without a result"))
        for rank in range(size)
        if rank not in results
    ]
    raise_first([*deaths, *raised, *silent])
    return [results[rank] for rank in range(size)]


def _death(failure: RankFailure) -> Failure:
    """The failure of a rank whose process has ended without an outcome."""
    rank, reason = failure.rank, failure.reason
    error = CollalgoError(reason, rank=rank, missing=(rank,))
    return Failure(rank, error, "\n".join([reason, *failure.lines]))
