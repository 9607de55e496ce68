"""Unix sockets between processes: whole messages, descriptors and the other's user."""

import os
import socket

import pytest

from collalgo.base.unix_socket import UnixSocket


@pytest.fixture
def pair(request):
    """Two connected sockets."""
    address = f"\0collalgo-test-{os.getpid()}-{request.node.name}"
    with UnixSocket() as listener, UnixSocket() as mine:
        listener.bind(address)
        listener.listen(1)
        mine.connect(address)
        with listener.accept() as its:
            yield mine, its


def test_each_message_is_received_whole_and_alone(pair):
    mine, its = pair
    for message in (b"one", b"three"):
        mine.send(message)
    its.peek()
    assert its.receive_with(100) == (b"one", [])
    assert its.receive_with(100) == (b"three", [])
    mine.close()
    assert its.receive_with(100) == (b"", [])


def test_the_descriptor_that_arrives_is_that_which_was_sent(pair):
    mine, its = pair
    reader, writer = os.pipe()
    mine.send_with(b"here", writer)
    message, (found,) = its.receive_with(100)
    os.write(found, b"through it")
    assert message == b"here"
    assert os.read(reader, 100) == b"through it"
    assert os.fstat(found).st_ino == os.fstat(writer).st_ino != writer
    for descriptor in {reader, writer, found}:
        os.close(descriptor)


def test_the_kernel_names_the_other_process(pair):
    for end in pair:
        assert end.credentials() == (os.getpid(), os.getuid(), os.getgid())


def test_sockets_of_python_connect_with_it(request):
    """As a process does that speaks another version of the protocol."""
    address = f"\0collalgo-test-{os.getpid()}-{request.node.name}"
    with (
        UnixSocket() as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other,
    ):
        listener.bind(address)
        listener.listen(1)
        other.connect(address)
        with listener.accept() as its:
            reader, writer = os.pipe()
            its.send_with(b"both", writer)
            message, (found,), _, _ = socket.recv_fds(other, 100, 1)
            assert message == b"both"
            for descriptor in (reader, writer, found):
                os.close(descriptor)
