"""A handler of torchrun whose first member ends before its store is reached: a script.

The first member tells the address of a store that nobody holds, and leaves as soon as
the handler connects with it.
"""

import tempfile
import threading
from contextlib import closing

from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousParameters,
)

from collalgo import elastic
from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.user_secret import user_secret
from collalgo.integrations.torch import elastic as handlers
from collalgo.launch.environment import free_port


def first_member(rendezvous, told):
    """Join an epoch, and tell where its store would be."""
    member = rendezvous.join()
    told.append(member)
    where = f"127.0.0.1 {free_port()}".encode()
    rendezvous.store.set(f"epoch/{member.epoch}/torch", where, fences=[member.fence])


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


def check_addresses():
    """A folder and this host's own name are no reason to tell the loopback address."""
    (outside, *_), own = addresses(loopback=True), handlers._own_address
    handlers.address_towards = lambda _: "127.0.1.1"
    assert own("file:///shared/job") == own("this_host:2379") == outside
    assert own("127.0.0.1:2379") == "127.0.1.1"
    handlers.address_towards = lambda _: "10.1.2.3"
    assert own("etcd://b:2379,c:2379") == own("b:2379") == "10.1.2.3"


def check_failing_store(where):
    """An agent repeats the requests of an epoch that its store does not answer."""
    handler = handlers.create(RendezvousParameters("collalgo", where, "job", 1, 1))
    store, left = handler._rendezvous.store, {"set": 3, "get": 2}

    def failing(name, request):
        def ask(key, *words, **named):
            if key.endswith("/torch") and left[name]:
                left[name] -= 1
                raise StoreError("it is slow")
            return request(key, *words, **named)

        return ask

    for name in left:
        setattr(store, name, failing(name, getattr(store, name)))
    assert handler.next_rendezvous().world_size == 1
    assert left == {"set": 0, "get": 0}, left
    handler.shutdown()


def check_unknown_host(folder):
    """A rendezvous without an address ends."""
    before = set(threading.enumerate())

    def fail(**_):
        raise OSError("no route")

    handlers.addresses = fail
    try:
        where = f"file://{folder}"
        handlers.create(RendezvousParameters("collalgo", where, "job", 1, 2))
    except RendezvousConnectionError as error:
        assert "no route" in str(error), error
    else:
        raise AssertionError("no error")
    assert set(threading.enumerate()) <= before


with closing(Server(user_secret(), "127.0.0.1")) as server:
    member, found, attempts = meet(f"127.0.0.1:{server.port}")
assert (member.rank, member.size) == (0, 2), member
assert (found.rank, found.world_size) == (0, 1), found
assert attempts[0] is False, attempts
assert attempts[-1] is True, attempts
assert found.store.timeout.total_seconds() == handlers.CONNECT_SECONDS
with closing(Server(user_secret(), "127.0.0.1")) as server:
    check_failing_store(f"127.0.0.1:{server.port}")
check_addresses()
with tempfile.TemporaryDirectory() as folder:
    check_unknown_host(folder)
print("right")
