"""Checkpoints of the state of a job: what they hold, damage, and what is refused."""

import hashlib
import os

import numpy as np
import pytest

from collalgo import CollalgoError, OutputError
from collalgo.elastic import Sampler, State, checkpoints


def of_file(path):
    state = State(w=np.zeros((2, 2), "f4"), sampler=Sampler(9), note="")
    state.load(path)
    return state


@pytest.fixture
def checkpoint(tmp_path):
    state = State(w=np.ones((2, 2), "f4"), sampler=Sampler(9), note="é")
    state.sampler.take(4)
    state.commit()
    state.w += 1  # not committed
    state.checkpoint(tmp_path / "state")
    return tmp_path / "state"


def test_a_checkpoint_holds_the_last_commit(checkpoint):
    state = of_file(checkpoint)
    assert (state.w == 1).all()
    assert (state.sampler.taken, state.note, state.revision) == (4, "é", 1)
    state.w *= 3
    state.commit()
    state.checkpoint(checkpoint)
    assert (of_file(checkpoint).w == 3).all()
    assert [each.name for each in checkpoint.parent.iterdir()] == ["state"]


def test_damage_anywhere_in_a_checkpoint_is_found(checkpoint):
    whole = checkpoint.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        checkpoint.write_bytes(damaged)
        with pytest.raises(CollalgoError, match=r"damaged|is cut|not a checkpoint"):
            of_file(checkpoint)
        checkpoint.write_bytes(whole[:place])
        with pytest.raises(CollalgoError, match=r"damaged|is cut|not a checkpoint"):
            of_file(checkpoint)


def test_a_file_that_is_cut_or_has_other_bits_is_named_so(checkpoint):
    whole = checkpoint.read_bytes()
    for length in (0, 20, 25, 31, 90, len(whole) - 1):
        checkpoint.write_bytes(whole[:length])
        needed = len(whole) if length > 200 else r"at least \d+"
        text = f"is cut: it has {length} of {needed} bytes; use an earlier one"
        with pytest.raises(CollalgoError, match=text):
            of_file(checkpoint)
    for place in (40, len(whole) // 2, len(whole) - 40, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        checkpoint.write_bytes(damaged)
        with pytest.raises(CollalgoError, match="hash does not match its content; use"):
            of_file(checkpoint)
    checkpoint.write_bytes(whole + b"more")
    with pytest.raises(
        CollalgoError, match=f"has {len(whole) + 4} bytes, .*{len(whole)}"
    ):
        of_file(checkpoint)


def test_a_missing_checkpoint_is_named_with_the_call(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"State.load: No such file .*/none"):
        State(w=1).load(tmp_path / "none")


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("[" * 99_999 + "]" * 99_999, "recursion|Stack overflow"),
        ('[1, ["array", "numpy", "object", [0]]]', "an array of object"),
        (f'[1, ["array", "numpy", "float32", [0, {2**70}]]]', "dimension"),
        ('[1, ["array", "numpy", "float32", [1]]]', "describes 4"),
        ('[1, ["array", "numpy", "nothing", [0]]]', "not understood"),
        ('[1, ["array", "torch", "nothing", [0]]]', "nothing"),
        ('[1, ["dict", 5]]', "not a part of a state"),
        ("1", "not iterable|cannot unpack"),
    ],
)
def test_a_head_that_describes_no_state_is_damaged(tmp_path, head, reason):
    if "torch" in head:
        pytest.importorskip("torch")
    path = tmp_path / "state"
    data = checkpoints.MAGIC + len(head).to_bytes(8, "little") + head.encode()
    path.write_bytes(data + hashlib.blake2b(data, digest_size=32).digest())
    with pytest.raises(CollalgoError, match=rf"is damaged: .*({reason}).*earlier one"):
        checkpoints.read_checkpoint(path)


def test_a_checkpoint_of_other_values_is_refused(checkpoint):
    with pytest.raises(CollalgoError, match=r"has the values .*'note'.* same names"):
        State(w=1).load(checkpoint)


@pytest.mark.parametrize(
    ("present", "text"),
    [
        (
            np.zeros((2, 3), "f4"),
            r"but the state an array of float32 with shape \(2, 3",
        ),
        (
            np.zeros((2, 2), "f8"),
            r"but the state an array of float64 with shape \(2, 2",
        ),
        ([np.zeros((2, 2), "f4")] * 2, r"has nothing in the value w, but the state an"),
        (1.5, r"array of float32 with shape \(2, 2\) in the value w, .*state nothing"),
    ],
)
def test_a_checkpoint_of_other_arrays_is_refused(checkpoint, present, text):
    state = State(w=present, sampler=Sampler(9), note="")
    with pytest.raises(CollalgoError, match=text):
        state.load(checkpoint)
    assert (state.w is present, state.note, state.revision) == (True, "", 0)


def test_a_foreign_file_is_not_replaced(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("chapter 1")
    with pytest.raises(OutputError, match=r"not a checkpoint that .* or remove it$"):
        State(w=1).checkpoint(path)
    assert path.read_text() == "chapter 1"


def test_a_pipe_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CollalgoError, match="pipe is a named pipe; name a checkpoint"):
        State(step=0).load(tmp_path / "pipe")
