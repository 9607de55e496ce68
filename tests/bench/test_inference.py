"""The processes of a replayed decoder find each other."""

import socket

from collalgo.bench.torch_libraries import reached


def test_the_first_address_that_answers_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert reached(["127.0.0.2", "127.0.0.1", "127.0.0.3"], port) == "127.0.0.1"
        assert reached(["127.0.0.2", "127.0.0.3"], port) == "127.0.0.3"
