"""The terms in the output of commands; docs/architecture.md has those of the code."""

from textwrap import fill

#: The meaning of each word.
WORDS = {
    "time": "until the last rank is done: in prices the predicted time, in collalgo "
    "bench the measured median",
    "bound": "the least possible time of any schedule: the time to move all bytes "
    "across the narrowest cut of the machine or, if longer, the latency of one word to "
    "all ranks",
    "x bound": "the time divided by the bound; lower is better, 1 is optimal",
    "cut": "the links between some ranks and all others",
    "decided by": "what made the choice: the price (lowest predicted time), the "
    "argument, the environment, a rules file or the policy of another library",
    "kept": "the time of the whole machine divided by the time with the failure; empty "
    "where ranks are lost",
    "x whole": "the time with the faults divided by that of the whole machine",
    "its schedule": "the time that the schedule chosen for the whole machine takes "
    "with the faults",
    "equal": "the number of elements that are alike by symmetry; the row is that of "
    "the one with the longest time",
    "along the ring": "ranks ordered along a ring of links",
    "narrowest hosts last": "ranks ordered so that the hosts of the slowest NICs are "
    "at the end",
    "assumed": "computed from an assumed speed of a link, as 12.8 GB/s as core; "
    "--assume core=GB/S, with that name, sets it",
    "roughly": "a price for more ranks than cores, so less accurate; also ~",
    "one_shot, two_shot, ...": "algorithms; collalgo algorithms explains each in a "
    "sentence, collalgo algorithms show NAME -c COLLECTIVE draws it",
    "floor": "the time in which this machine copies the same bytes or, if longer, "
    "reads data that ranks on other cores have written; between hosts the bound; empty "
    "if a call was faster",
    "p50, p95, p99": "the time within which 50, 95 and 99 % of the calls end; tables "
    "of bench call p50 time",
    "algbw": "algorithm bandwidth: buffer size divided by time",
    "busbw": "bus bandwidth, as in nccl-tests: algbw times 2(n-1)/n for an allreduce "
    "of n ranks, the part of the buffer that crosses a link; compare it with the "
    "link's speed",
    "predicted": "the predicted time of the schedule",
    "why": "the reason for the choice: its advantage over the next candidate, or none",
    "tied with": "has the same predicted time as",
    "about as cheap as": "is cheaper by 0.5 % at most than",
    "nearly as cheap as": "takes slightly longer than, by prices that differ by less "
    "than the host profile is precise; of such schedules the one with the least work "
    "is chosen",
    "in rounds": "by the price model rounds, in which data is relayed a step later: "
    "of a broadcast or reduce its least time may exceed the bound",
    "attained by trees": "some schedule of trees (or, of an alltoall, of flows) "
    "reaches the bound for long buffers; otherwise the output says reason, and the "
    "best schedule may take longer than the bound",
    "synthesized(...)": "a schedule computed for the topology. rounds is the number "
    "of steps that the busiest link needs; pace 'even' has steps of equal time, "
    "'half' and 'fifth' fewer and longer ones, 'ramp', 'filled', 'gentle', 'steep' and "
    "'slow' shorter ones at both ends; peers is whether a rank combines the "
    "data of one or of several others in a step; way is how the data moves "
    "('blocks': through a tree of each rank, an allreduce as reduce-scatter and "
    "allgather; 'shares': the same with as much for each rank as suits its links; "
    "'trees'; 'waves': through few trees; 'paths', 'evenly', 'far_first': along the "
    "same paths in three orders); machine is a digest of the topology",
    "x ours": "the time of the other library divided by ours; above 1, collalgo is "
    "faster",
    "best x": "the time of the fastest peer of the row divided by ours",
    "mpich-rg, openmpi-sm, openmpi-nocma": "peers with other settings: MPICH with its "
    "release_gather algorithms for shared memory, Open MPI with its collectives for "
    "shared memory (sm), and without copies between processes (CMA)",
    "last rank": "the rank that entered the calls last, for which the others waited, "
    "with its share of the calls",
    "place": "the line of the script that called",
    "block": "the part of the buffer that belongs to one rank, as in an allgather",
    "chunk 2 of 4": "the third quarter of the buffer, as chunks are counted from 0; in "
    "drawings 2/4, and 2-3/4 for chunks 2 to 3 of 4",
    "sent": "the bytes that the busiest rank sends",
    "reduced": "the bytes that the busiest rank combines with its own",
    "fresh": "the time of first calls with new sizes close to that of the row",
    "n bytes": "n is the buffer size of a rank; 3/2 n bytes: the messages of the "
    "longest dependency chain have one and a half times that size, if a rank sends to "
    "one peer and receives from one peer at a time",
    "steps": "the largest number of steps of any rank; the transfers of one step are "
    "concurrent",
    "rounds": "as a column, the number of messages in the longest dependency chain, "
    "if a rank sends to one peer and receives from one peer at a time",
    "rounds, fluid": "price models: in rounds all ranks begin a step together; in "
    "fluid a rank continues as its own messages arrive, and messages share links "
    "fairly",
    "links": "the number of pairs of sender and receiver",
    "roundings": "the largest number of roundings of any contribution; fewer are more "
    "accurate",
    "order": "the order of reduction: serial (rank order), ranks (only adjacent ranks "
    "are combined, so the op need not commute) or any. As a parameter, the positions "
    "of the ranks in the schedule",
    "segments": "the parts of the data that pass through the schedule one after the "
    "other, as in a pipeline",
    "lanes": "the parts of the data that move concurrently; also their separate "
    "channels between two ranks",
    "fold": "extends an algorithm for, say, powers of two to any number of ranks: each "
    "excess rank sends its data to a proxy and receives the result from it",
    "wrong": "the number of elements that differ from NumPy's result",
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
    return "\n".join(["\b", "Terms in the output:", *lines])
