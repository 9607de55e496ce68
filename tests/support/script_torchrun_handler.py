"""A handler of torchrun whose first member ends before its store is reached: a script.

The first member tells the address of a store that nobody holds, and leaves as soon as
the handler connects with it.
"""

import threading
from contextlib import closing

from torch.distributed.elastic.rendezvous import RendezvousParameters

from collalgo import elastic
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.user_secret import user_secret
from collalgo.integrations.torch import elastic as handlers
from collalgo.launch.environment import free_port


def first_member(meeting, told):
    """Join an epoch, and tell where its store would be."""
    member = meeting.join()
    told.append(member)
    where = f"127.0.0.1 {free_port()}".encode()
    meeting.store.set(f"epoch/{member.epoch}/torch", where, fences=[member.fence])


def meet(where):
    """What both members and the attempts to connect with a store have come to."""
    told, attempts, tcp_store = [], [], handlers._tcp_store
    first = elastic.rendezvous(where, "job", elastic.Settings(1, 2), "a")
    joining = threading.Thread(target=first_member, args=(first, told))

    def connect(*place, is_held):
        if not is_held and not attempts:
            first.shutdown()
        attempts.append(is_held)
        return tcp_store(*place, is_held=is_held)

    handlers._tcp_store, handlers.ATTEMPT_SECONDS = connect, 0.5
    joining.start()
    handler = handlers.create(RendezvousParameters("collalgo", where, "job", 1, 2))
    found = handler.next_rendezvous()
    joining.join()
    handler.shutdown()
    return told[0], found, attempts


with closing(Server(user_secret(), "127.0.0.1")) as server:
    member, found, attempts = meet(f"127.0.0.1:{server.port}")
assert (member.rank, member.size) == (0, 2), member
assert (found.rank, found.world_size) == (0, 1), found
assert attempts[0] is False, attempts
assert attempts[-1] is True, attempts
assert found.store.timeout.total_seconds() == handlers.CONNECT_SECONDS
print("right")
