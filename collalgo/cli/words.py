"""The words of the output of commands; docs/architecture.md has those of the code."""

from textwrap import fill

#: The meaning of each word.
WORDS = {
    "time": "the predicted seconds until the last rank is done",
    "bound": "the least possible time of any schedule: of all bytes across the "
    "narrowest cut of the machine or, if longer, of one word to all ranks",
    "x bound": "the time divided by the bound; lower is better, 1 is optimal",
    "cut": "the links between some ranks and all others",
    "decided by": "the decider: the price (the lowest time), the argument, the "
    "environment, a file of rules or the policy of a peer",
    "along the ring": "ranks ordered along a ring of links",
    "narrowest hosts last": "ranks ordered so that the hosts of the slowest NICs are "
    "at the end",
    "assumed": "computed from an assumed speed of a link; --assume NAME=GB/S sets it",
    "roughly": "a price for more ranks than cores, which is rough; also ~",
    "one_shot, two_shot, ...": "algorithms; collalgo algorithms explains each in a "
    "sentence, collalgo algorithms show NAME -c COLLECTIVE draws it",
    "floor": "the time in which this machine copies the same bytes or, if longer, "
    "reads data that ranks on other cores have written; between hosts the bound",
    "p50, p95, p99": "the time within which 50, 95 and 99 % of the calls end",
    "algbw": "algorithm bandwidth: the bytes of the buffer divided by the time",
    "busbw": "bus bandwidth: algbw times the part of the buffer that crosses a link, "
    "2(n-1)/n for an allreduce of n ranks, as nccl-tests defines it; compare it with "
    "the speed of a link",
    "predicted": "the predicted time of the schedule",
    "why": "the reason of the choice: its advantage over the next "
    "candidate, a tie with it, or about the same price",
    "chunks 2/4": "chunk number 2 of a buffer that is cut into 4, counted from 0; "
    "3/4 to 1 is that from three quarters to the end",
    "sent": "the bytes that the busiest rank sends",
    "fresh": "the time of first calls with new sizes near that of the row",
    "n bytes": "n is the size of the buffer of a rank: 3/2 n bytes are one and a half "
    "buffers, sent by the busiest rank",
    "steps": "what a rank does one after the other; the transfers of a step are "
    "concurrent",
    "rounds": "the messages of the longest chain, if a rank sends to one peer and "
    "receives from one at once",
    "rounds, fluid": "price models: in rounds all ranks begin a step together; in "
    "fluid a rank continues as its own messages arrive, and messages share links "
    "fairly",
    "links": "the pairs of ranks, in one direction, between which messages move",
    "roundings": "the most roundings of a contribution on its way into the result; "
    "fewer are more exact",
    "order": "of the sums: serial in the order of the ranks; ranks where adjacent "
    "ranks are combined, so that the op need not commute; else any. As a parameter, "
    "the positions of the ranks in the schedule",
    "segments": "the parts of the data that follow each other through the schedule, as "
    "in a pipeline",
    "lanes": "the parts of the data that move at once; also the separate channels "
    "between two ranks that they take",
    "fold": "how an algorithm for some numbers of ranks, as powers of two, runs on "
    "any: each rank in excess gives its data to a proxy and receives the result",
    "wrong": "the number of elements that differ from the result of NumPy",
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
