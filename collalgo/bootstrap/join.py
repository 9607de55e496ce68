"""Joining: how a process connects with the other ranks of its job."""

import os

from collalgo.bootstrap.context import Context
from collalgo.bootstrap.identity import Route
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.rendezvous import HostRendezvous


def join(arguments: JoinArguments) -> Context:
    """Connect with the other ranks, at the given store or as the launcher says.

    Ranks that join over MPI need an integration; see ``JoinArguments.over_mpi``.

    Raises
    ------
    ValueError
        If the store is invalid, or rank and size are unknown.
    BootstrapError
        If the ranks do not find each other.
    """
    me = arguments.launched
    if me is None:
        from collalgo.bootstrap.init_urls import connect_by_url

        return connect_by_url(arguments)
    if me.route is Route.HOST or me.size == 1:
        job = me.job or f"alone/{os.getpid()}"
        rendezvous = HostRendezvous(job)
        return rendezvous.connect("", me.rank, range(me.size), arguments.timeout)
    if me.route is Route.STORE:
        from collalgo.bootstrap.connect import connect_to_store
        from collalgo.bootstrap.membership import Membership

        return connect_to_store(me.job, Membership(me.rank, store_rank=None), arguments)
    from collalgo.bootstrap.connect import connect_over
    from collalgo.bootstrap.init_urls import store_of_launcher

    return connect_over(store_of_launcher(arguments.timeout), arguments)
