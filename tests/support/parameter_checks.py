"""Check that algorithms with parameters are proved and lowered, or refused."""

import numpy as np

from collalgo import (
    ALGORITHMS,
    AlgorithmNotApplicable,
)
from collalgo.algorithms.catalogue import find
from collalgo.algorithms.first_use import prove_once
from collalgo.engine.call import Call
from collalgo.engine.plan.template import TemplateKey
from tests.engine.plan.test_lowering import messages


def rows_with_parameters():
    return [row for row in ALGORITHMS if not row.unproved]


def variant_of(row, size, parameters):
    values = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return find(row.collective, f"{row.name}({values})", size)


def examine(row, size, parameters, root):
    """Prove and lower what a name means; None if it is refused with a reason."""
    try:
        variant = variant_of(row, size, parameters)
    except AlgorithmNotApplicable:
        return None
    prove_once(variant.schedule, size, row.collective, root)
    for count in range(4):
        call = Call(row.collective, np.dtype(np.float32), count, root=root)
        key = TemplateKey(row.collective, variant.schedule, 0, size, root)
        plans = [
            key._replace(rank=rank).template().plan(call.layout(size))
            for rank in range(size)
        ]
        sent, received = messages(plans, 0)
        assert sum_of_bytes(sent) == sum_of_bytes(received)
    return variant


def sum_of_bytes(sides):
    return {
        channel: [sum(nbytes for _, nbytes in message) for message in of_channel]
        for channel, of_channel in sides.items()
    }
