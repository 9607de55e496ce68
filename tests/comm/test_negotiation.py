"""The coordinator of a negotiated bucket calls each array once, when all have it."""

import logging

from hypothesis import given, strategies as st

from collalgo.comm.negotiation import CYCLE_SECONDS, Coordinator, Signature

DTYPES = ("float32", "int64", "float16")


def check_each_is_reduced_once(calls, arrays, limit):
    """Each call has arrays of one dtype, and no more bytes than the limit."""
    numbers = sorted(int(name) for names in calls for name in names)
    assert numbers == [*range(len(arrays))]
    for names in calls:
        several = [arrays[int(name)] for name in names]
        assert len({dtype for dtype, _ in several}) == 1
        total = 4 * sum(count for _, count in several)
        assert total <= limit or len(names) == 1


def check_ends_as_all_leave(coordinator, size):
    assert coordinator.failure is None
    assert not coordinator.ended
    for rank in range(size):
        coordinator.leave(rank, "")
    assert coordinator.ended


@given(
    st.integers(1, 17),
    st.lists(st.tuples(st.sampled_from(DTYPES), st.integers(0, 50)), max_size=30),
    st.integers(1, 300),
    st.randoms(use_true_random=False),
)
def test_each_array_is_reduced_once_after_all_ranks_have_added_it(
    size, arrays, limit, chance
):
    coordinator = Coordinator(size, limit, 60.0, 300.0)
    events = [(r, number) for r in range(size) for number in range(len(arrays))]
    chance.shuffle(events)
    added = [set() for _ in arrays]
    calls, now = [], 0.0
    for rank, number in events:
        dtype, count = arrays[number]
        signature = Signature(dtype, count)
        coordinator.add(rank, str(number), signature, 4 * count, now)
        added[number].add(rank)
        now += chance.choice([0.0, CYCLE_SECONDS / 3, 2 * CYCLE_SECONDS])
        for names in coordinator.calls(now):
            assert all(len(added[int(name)]) == size for name in names)
            calls.append(names)
    left = coordinator.seconds_left(now)
    assert left is None or left <= 1.001 * CYCLE_SECONDS
    calls += coordinator.calls(now + 2 * CYCLE_SECONDS)
    check_each_is_reduced_once(calls, arrays, limit)
    check_ends_as_all_leave(coordinator, size)


def test_arrays_of_one_cycle_share_calls_and_no_call_is_begun_early():
    coordinator = Coordinator(1, 100, 60.0, 300.0)
    for name, nbytes in (("a", 60), ("b", 30), ("c", 60), ("d", 500)):
        coordinator.add(0, name, Signature("float32", 1), nbytes, 0.0)
    assert list(coordinator.calls(CYCLE_SECONDS / 2)) == []
    assert list(coordinator.calls(CYCLE_SECONDS)) == [["a", "b"], ["c"], ["d"]]
    assert coordinator.seconds_left(9.0) is None


def test_ranks_that_others_wait_for_are_reported_then_an_error(caplog):
    coordinator = Coordinator(4, 100, 10.0, 25.0)
    for number in range(7):
        for rank in range(number % 3 + 1):
            coordinator.add(rank, f"w{number}", Signature("f4", 1), 4, 0.0)
    with caplog.at_level(logging.WARNING, "collalgo"):
        coordinator.look(9.0)
        assert not caplog.records
        coordinator.look(10.0)
        coordinator.look(11.0)
    (record,) = caplog.records
    text = record.getMessage()
    assert "have waited for others for 10 s" in text
    assert "'w1': added by ranks [0, 1], not by ranks [2, 3]" in text
    assert "and 2 more" in text
    assert coordinator.failure is None
    coordinator.look(25.0)
    assert coordinator.failure.kind == "timeout"
    assert coordinator.failure.missing == [1, 2, 3]
    assert "'w0', 'w1'" in coordinator.failure.text
