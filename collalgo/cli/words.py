"""The words of the output of commands, for their help; docs/architecture.md has all."""

from textwrap import fill

#: The meaning of each word.
WORDS = {
    "time": "the predicted seconds until the last rank is done",
    "bound": "the least time of any schedule: that of all bytes across the narrowest "
    "cut of the machine or, if longer, that of one word to all ranks",
    "x bound": "the time over the bound; no schedule is below 1",
    "cut": "the links between some ranks and all others",
    "decided by": "who chose: the price (the lowest time), the argument, the "
    "environment, a file of rules or the policy of a peer",
    "along the ring": "with the ranks in the order of a ring of links",
    "narrowest hosts last": "with the hosts of the slowest NICs at the end",
    "assumed": "resting on a speed that is not known; --assume NAME=GB/S changes it",
    "roughly": "with more ranks than cores, for which prices are rough; also ~",
    "one_shot, two_shot, ...": "algorithms; collalgo algorithms explains each in a "
    "sentence, collalgo algorithms show NAME -c COLLECTIVE draws it",
    "floor": "the time in which this machine copies the same bytes or, if longer, "
    "reads data that ranks on other cores have written",
    "p50, p95, p99": "the time that 50, 95 and 99 % of the calls take at most",
    "algbw": "algorithm bandwidth: the bytes of the buffer over the time",
    "busbw": "bus bandwidth: algbw times the part of the buffer that crosses a link, "
    "as 2(n-1)/n for an allreduce of n ranks, as nccl-tests defines it; it compares "
    "with the speed of a link",
    "predicted": "the time by the prices",
    "sent": "the bytes that the busiest rank sends",
    "fresh": "the time of the first calls of sizes near that of the row",
    "wrong": "the number of elements that are not as computed by NumPy",
}


def epilog(*words: str) -> str:
    """The end of a help text: the meaning of some words, one paragraph each."""
    lines = [
        fill(
            f"{word}: {WORDS[word]}",
            76,
            initial_indent="  ",
            subsequent_indent="      ",
        )
        for word in words
    ]
    return "\n".join(["\b", "Words of the output:", *lines])
