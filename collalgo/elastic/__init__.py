"""Jobs whose members come and go: rounds of a rendezvous, over a key-value store."""

from collalgo.elastic.backends import rendezvous as rendezvous
from collalgo.elastic.interface import (
    Membership as Membership,
    MembershipChange as MembershipChange,
    Rendezvous as Rendezvous,
)
from collalgo.elastic.settings import Settings as Settings
