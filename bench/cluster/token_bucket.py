"""The token bucket that limits an interface of an emulated link to its rate."""

import math

#: The token-bucket burst of a cable, in seconds of its rate, which covers the time that
#: a core may be busy with other work; and the queue before it, in seconds.
BURST, QUEUE = 0.008, 0.03

#: The rate at which a cable catches up with its own, as a multiple, and the burst at
#: full speed meanwhile in seconds: messages after a pause must not pass at once.
CATCH_UP, AT_ONCE = 1.1, 0.0002

#: The bytes of the longest packet before it is segmented, which a burst must allow.
LONGEST_PACKET = 65536


def token_bucket(rate: float) -> list[str]:
    """The queueing discipline that limits an interface to a rate, inf for no limit."""
    if rate == math.inf:
        return ["noqueue"]
    return [
        *("tbf", "rate", f"{8 * rate:.0f}bit"),
        *("burst", str(max(int(BURST * rate), LONGEST_PACKET))),
        *("latency", f"{QUEUE}s", "peakrate", f"{8 * CATCH_UP * rate:.0f}bit"),
        *("mtu", str(max(int(AT_ONCE * rate), LONGEST_PACKET))),
    ]
