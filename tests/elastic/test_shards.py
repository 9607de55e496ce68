"""Sums and samples that do not depend on who is a member."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo import threads
from collalgo.elastic import Sampler, State, sum_shards
from collalgo.elastic.tree_sums import Node, nodes_of, share
from tests.support.leisure import at_leisure

SIZES = [1, 2, 3, 5, 7, 8, 12, 16, 17, 33]


def in_order_of_the_tree(leaves):
    """The sum that the tree defines, level by level."""
    while len(leaves) > 1:
        pairs = zip(leaves[::2], [*leaves[1::2], None], strict=False)
        leaves = [a if b is None else a + b for a, b in pairs]
    return leaves[0]


def random_shard(rng):
    return (
        rng.standard_normal((3, 5)).astype("f4"),
        10 ** rng.uniform(-9, 9, 101),
        rng.standard_normal(4).astype("f4"),
        rng.integers(-99, 99, 3),
    )


@pytest.mark.parametrize("shards", at_leisure([1, 3, 12, 33, 100], {1, 3, 12, 33}))
def test_the_bits_of_a_sum_do_not_depend_on_the_members(shards):
    rng = np.random.default_rng(shards)
    data = [random_shard(rng) for _ in range(shards)]
    right = [in_order_of_the_tree([each[i] for each in data]) for i in range(4)]
    for size in SIZES:
        if size > shards:
            continue
        for found in threads(
            lambda comm: sum_shards(comm, shards, lambda k: data[k]), size
        ):
            assert type(found) is tuple
            for mine, true in zip(found, right, strict=True):
                assert (mine.dtype, mine.shape) == (true.dtype, true.shape)
                assert mine.tobytes() == true.tobytes()


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", ">c8", "m8[s]", "f2", "?"])
def test_sums_of_any_dtype_are_alike_for_any_members(dtype):
    rng = np.random.default_rng(8)
    data = rng.integers(0, 2, (8, 6)).astype(dtype)
    right = in_order_of_the_tree(list(data))
    for size in (1, 2, 3, 8):
        for found in threads(lambda comm: sum_shards(comm, 8, lambda k: data[k]), size):
            assert found.dtype == data.dtype
            assert (found == right).all()


@given(st.integers(1, 200), st.data())
def test_each_shard_belongs_to_one_member_and_one_node(shards, data):
    size = data.draw(st.integers(1, shards))
    shares = [share(shards, rank, size) for rank in range(size)]
    assert [k for each in shares for k in each] == list(range(shards))
    for rank, mine in enumerate(shares):
        covered = [
            k
            for level, number in nodes_of(shards, rank, size)
            for k in range(number << level, min((number + 1) << level, shards))
        ]
        assert covered == list(mine)
        assert len(nodes_of(shards, rank, size)) <= 2 * max(1, shards.bit_length())
    levels = (shards - 1).bit_length()
    assert nodes_of(shards, 0, 1) == [Node(levels, 0)]


def test_the_array_of_a_shard_may_be_used_again():
    def on_each_rank(comm):
        buffer = np.empty(10)

        def of(k):
            buffer[:] = k
            return buffer

        return sum_shards(comm, 8, of)[3]

    assert threads(on_each_rank, 3) == [28.0] * 3


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_sum_is_the_callers_own_whatever_is_summed_next(size):
    def on_each_rank(comm):
        found = [sum_shards(comm, 8, lambda _, n=n: np.full(40, n)) for n in range(9)]
        inner = sum_shards(comm, 8, lambda _: [np.ones(30), np.ones(99, "f4")])
        found[0][:] = 7  # which no later sum reads
        return [each[0] for each in found] + [each[-1] for each in inner]

    expected = [7, *(8 * n for n in range(1, 9)), 8, 8]
    assert threads(on_each_rank, size) == [expected] * size


def test_a_sum_within_a_sum_has_memory_of_its_own():
    def on_each_rank(comm):
        def of(k):
            alone = sum_shards(comm, 4, lambda j: np.full(50, j)) if k == 3 else 0
            return np.full(50, k) + alone

        return [sum_shards(comm, 4, of)[0] for _ in range(3)]

    assert threads(on_each_rank, 1) == [[12] * 3]


def test_shorter_arrays_than_members_are_summed():
    for length in (0, 1, 2):
        found = threads(lambda c, n=length: sum_shards(c, 5, lambda _: np.ones(n)), 5)
        assert all(each.tolist() == [5.0] * length for each in found)


def test_what_cannot_be_summed_is_refused():
    def too_few(comm):
        with pytest.raises(ValueError, match="2 shards for 3 members"):
            sum_shards(comm, 2, np.ones)

    def unlike(comm):
        with pytest.raises(ValueError, match=r"arrays of shapes \[\(1,\)\]"):
            sum_shards(comm, 2, lambda k: np.ones(2 - k))

    threads(too_few, 3)
    threads(unlike, 1)


# ---- the sampler


@given(st.integers(1, 50), st.integers(1, 20), st.randoms(use_true_random=False))
def test_each_index_is_taken_once_an_epoch_whatever_happens(length, most, random):
    """Steps are rolled back, and other members continue from a commit."""
    sampler = Sampler(length, seed=length)
    state = State(sampler=sampler, done=[])
    for _ in range(200):
        if state.sampler.epoch == 2:
            break
        epoch, found = sampler.epoch, sampler.take(most)
        state.done = [*state.done, *((epoch, int(index)) for index in found)]
        if random.random() < 0.5:
            state.commit()
        elif random.random() < 0.5:
            state.restore()
        else:  # a newcomer has nothing but the state
            state.commit()
            sampler.load_state_dict(Sampler(length, seed=length).state_dict())
            state.restore()
    done = [each for each in state.done if each[0] < state.sampler.epoch]
    assert len(done) == len(set(done)) == length * state.sampler.epoch
    now = [each for each in state.done if each[0] == state.sampler.epoch]
    assert len(set(now)) == len(now) == state.sampler.taken


def test_epochs_have_orders_of_their_own():
    orders = [Sampler(50, seed).take(50).tolist() for seed in (0, 1, 0, None)]
    sampler = Sampler(50)
    orders += [sampler.take(50).tolist() for _ in range(2)]
    assert orders[0] == orders[2] == orders[4]
    assert orders[3] == sorted(orders[0])
    assert len({tuple(each) for each in orders}) == 4


def test_a_sampler_of_another_data_set_is_refused():
    with pytest.raises(ValueError, match="sampler of 5 samples, but this one has 6"):
        Sampler(6).load_state_dict(Sampler(5).state_dict())


def test_a_sampler_of_another_seed_is_refused():
    with pytest.raises(ValueError, match="with seed 1, but this one has seed 2"):
        Sampler(5, seed=2).load_state_dict(Sampler(5, seed=1).state_dict())


def test_what_is_taken_is_the_callers_own():
    ours, others = Sampler(8), Sampler(8)
    taken = ours.take(4)
    taken[:] = 0
    ours.load_state_dict(Sampler(8).state_dict())
    assert ours.take(8).tolist() == others.take(8).tolist()


@pytest.mark.parametrize("several", [False, True])
def test_masks_are_refused_not_ignored(several):
    part = np.ma.masked_array(np.ones(3), [True, False, False])
    with pytest.raises(TypeError, match="sum_shards: got a masked array"):
        threads(
            lambda comm: sum_shards(comm, 4, lambda _: [part] if several else part), 2
        )
