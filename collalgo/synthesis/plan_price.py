"""The price of a plan by the transfers that represent all that they turn into.

Links that turn into each other have the same loads in each step, and so do ranks. So
one of each is priced, which is the price of the round-synchronous model for all, up to
rounding.
"""

import numpy as np

from collalgo._kernels.synthesis.step_prices import StepPrices
from collalgo.cost.link_model import LinkModel
from collalgo.cost.rounds import Line
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.plan import LANES, Plan


def is_by_loads(model: LinkModel) -> bool:
    """Whether prices depend on loads and latencies alone, not on the messages."""
    of_network = model.network_message is not None or model.network_byte
    return not (model.crowding or model.turning or model.reduction or of_network)


def line_of(pairs: PairLinks, plan: Plan, model: LinkModel) -> Line:
    """The price of a plan over the bytes of its buffer.

    Parameters
    ----------
    pairs
        The links that the plan is ordered on.
    plan
        The plan, without what its transfers turn into.
    model
        The costs of messages.
    """
    source, target, block, _, _ = plan.transfers
    prices = StepPrices(
        pairs.first,
        pairs.links,
        pairs.busy,
        pairs.latencies,
        pairs.kinds,
        pairs.kinds.reshape(pairs.size, -1).T.ravel(),
        pairs.size,
        LANES,
        len(pairs.bytes_per_second),
    )
    pair, share = source * pairs.size + target, plan.blocks.share[block]
    latency, seconds, messages = prices.of(
        plan.step, pair, plan.lane, share, plan.steps
    )
    gaps = model.message * np.maximum(messages - 1, 0)
    assumed = bool(prices.total[pairs.assumed].any())
    return Line(float((latency + gaps).sum()), float(seconds.sum()), assumed)
