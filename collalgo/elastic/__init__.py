"""Elastic jobs: members join and leave, and the result has the same bits.

:func:`run` calls a training function again after each change of the members;
:class:`State` holds what it trains; :func:`sum_shards` and :class:`Sampler` make the
result independent of the members. Below it, members join in the rounds of a
:func:`rendezvous` over a key-value store.
"""

from collalgo.elastic.backends import rendezvous as rendezvous
from collalgo.elastic.epochs import connect as connect, pending as pending
from collalgo.elastic.interface import (
    Membership as Membership,
    MembershipChange as MembershipChange,
    Rendezvous as Rendezvous,
)
from collalgo.elastic.recording import record as record
from collalgo.elastic.running import run as run
from collalgo.elastic.sampler import Sampler as Sampler
from collalgo.elastic.settings import Settings as Settings
from collalgo.elastic.shards import sum_shards as sum_shards
from collalgo.elastic.state import State as State
