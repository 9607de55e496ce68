"""A rank that runs a function: it reads the call from a store, and writes the result.

The store is at the address given as argument, by default that of the job.
"""

import os
import sys

from collalgo.base.environment import STORE
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.comm.communicator import Communicator
from collalgo.comm.world import init
from collalgo.errors import CollalgoError
from collalgo.launch.function_call import Call, encode_failure, encode_result
from collalgo.launch.function_store import opened
from collalgo.launch.rank_function import failure_of, run_as_rank


def main() -> int:
    """Make the call: the exit code, 0 if it has returned."""
    rank, variables = int(os.environ["RANK"]), dict(os.environ)
    if len(sys.argv) > 1:
        variables[STORE.name] = sys.argv[1]
    with opened(variables) as store:
        message = store.call()
    outcome, code = _outcome(message, rank)
    with opened(variables) as store:
        try:
            store.put_outcome(rank, outcome)
        except CollalgoError as error:  # it is too long
            store.put_outcome(rank, encode_failure(failure_of(rank, error)))
            code = 1
    return code


def _outcome(message: bytes, rank: int) -> tuple[bytes, int]:
    """The result or the error of the call, and the exit code."""
    try:
        call = Call.decode(message)

        def function(comm: Communicator) -> object:
            return call.function(comm, *call.args)

        result = run_as_rank(
            init(timeout=call.timeout, join_timeout=JOIN_TIMEOUT), function
        )
        return encode_result(result), 0
    except BaseException as error:
        return encode_failure(failure_of(rank, error)), 1


if __name__ == "__main__":
    sys.exit(main())
