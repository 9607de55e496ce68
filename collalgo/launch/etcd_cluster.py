"""The cluster of a job's own etcd, as a node sees it that joins it again."""

import ssl
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPException, HTTPSConnection

from collalgo.bootstrap.store.etcd_gateway import Gateway, Repeat
from collalgo.bootstrap.store.etcd_messages import accepted, as_object
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.bootstrap.store.race import Server

#: Seconds in which a member that runs says how far it is, and how often one that does
#: not answer in time is asked.
ANSWER_SECONDS, ATTEMPTS = 1.0, 5


def has_begun(members: Sequence[Server], context: ssl.SSLContext) -> bool:
    """Whether some members of a cluster, all but one, have elected a leader.

    A member that does not answer in time is asked again, as a node that has lost its
    member must not begin a second cluster.
    """
    asked = list(members)
    for _ in range(ATTEMPTS):
        found = {each: _index(each, context) for each in asked}
        if max((index or 0 for index in found.values()), default=0) > len(members) + 1:
            return True
        asked = [each for each, index in found.items() if index is None]
    return False


def _index(server: Server, context: ssl.SSLContext) -> int | None:
    """The entries of a member's log; 0 if it waits for others or does not run.

    When the cluster has begun it has more of them than members. None if there was no
    answer in time.
    """
    connection = HTTPSConnection(*server, timeout=ANSWER_SECONDS, context=context)
    try:
        with closing(connection):
            connection.request("POST", "/v3/maintenance/status", "{}")
            answer = as_object(accepted(connection, "maintenance/status").read())
            return int(answer.get("raftIndex", 0))
    except TimeoutError:
        return None
    except (OSError, HTTPException, StoreError):
        return 0


def replace_member(others: Gateway, url: str) -> None:
    """Replace the member that has a URL by a new one, unless it has never run."""
    listed = others.ask("cluster/member/list", {})
    for member in listed.get("members", []):
        if url in member.get("peerURLs", []):
            if not member.get("clientURLs"):
                return
            others.ask("cluster/member/remove", {"ID": member["ID"]}, Repeat.NEVER)
    others.ask("cluster/member/add", {"peerURLs": [url]}, Repeat.NEVER)
