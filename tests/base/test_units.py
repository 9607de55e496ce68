"""Sizes as people write them."""

import math

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from collalgo import Topology, select, simulate, threads
from collalgo.base.units import (
    LARGEST,
    TIMES,
    UNITS,
    size_in_bytes,
    sizes_in_bytes,
    time_in_seconds,
)
from collalgo.cli.main import main
from collalgo.cost.bounds import bound
from collalgo.cost.host_profile import HostProfile


@given(number=st.floats(0, 1e9), unit=st.sampled_from(list(TIMES)))
def test_times_have_units_or_are_in_seconds(number, unit):
    assert time_in_seconds(f"{number!r}{unit}") == number * TIMES[unit]


@pytest.mark.parametrize("text", ["", "s", "3 minutes", "3mss", "ms3", "3,5s", "3m"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="is not a time; write"):
        time_in_seconds(text)


@given(
    number=st.integers(0, 1 << 20),
    unit=st.sampled_from(list(UNITS)),
    suffix=st.sampled_from(["", "B", "iB", "b", "ib"]),
    space=st.sampled_from(["", " "]),
    lower=st.booleans(),
)
def test_units_are_powers_of_1024_however_they_are_written(
    number, unit, suffix, space, lower
):
    written = f"{number}{space}{unit.lower() if lower else unit}{suffix}"
    assert size_in_bytes(written) == number * UNITS[unit]


@pytest.mark.parametrize(
    ("written", "nbytes"),
    [("200MB", 200 << 20), ("200 MB", 200 << 20), ("1e6", 10**6), ("1.5K", 1536)],
)
def test_sizes_of_other_tools_are_understood(written, nbytes):
    assert size_in_bytes(written) == nbytes


@pytest.mark.parametrize(
    "written",
    ["", "x", "-8", "8q", "1.5", "1e99", "9e18", "9" * 99, "K", "1e999999999", "²K"],
)
def test_what_is_no_size_is_refused(written):
    with pytest.raises(ValueError, match=r"is not a size|whole number|the maximum is"):
        size_in_bytes(written)


def test_lists_and_ranges():
    assert sizes_in_bytes("1M,256M") == [1 << 20, 256 << 20]
    assert sizes_in_bytes("8..64, 1K,8") == [8, 32, 1024]
    assert sizes_in_bytes("0..8") == [0, 1, 4]
    assert sizes_in_bytes("0..0") == [0]
    assert sizes_in_bytes(f"{LARGEST}") == [LARGEST]
    with pytest.raises(ValueError, match="ends before it begins"):
        sizes_in_bytes("1M..1K")
    for text in ("1K..", "..1K", "8, ..", ".. "):
        with pytest.raises(ValueError, match=r"\.\.[^:]*': a range has two sizes"):
            sizes_in_bytes(text)


TORUS = Topology.load("torus", dims=(2, 2))

#: Functions that take a number of bytes.
OF_BYTES = {
    "select": lambda n: select("allreduce", n, size=2, machine=MACHINE).nbytes,
    "comm.select": lambda n: threads(lambda c: c.select("allreduce", n).nbytes, 1)[0],
    "simulate": lambda n: simulate("ring", TORUS, n, collective="allreduce").nbytes,
    "Bound": lambda n: bound("allreduce", TORUS).seconds(n) * RATE,
}
MACHINE = HostProfile(1e-6, 3e-6, 1e-7, 1e-10, 1e-10, cores=2)
RATE = 1e9 / float(bound("allreduce", TORUS).per_byte)


@pytest.mark.parametrize("name", OF_BYTES)
def test_functions_take_bytes_as_numbers_and_as_text(name):
    for mib in (1 << 20, 1e6 * 1.048576, np.int32(1 << 20), np.float32(1 << 20), "1M"):
        assert OF_BYTES[name](mib) == pytest.approx(1 << 20)
    for wrong in (-8, "-8", 1.5, math.nan, math.inf, 1 << 99, "8q", np.int8(-1)):
        with pytest.raises(ValueError, match=r"nbytes(:| is)"):
            OF_BYTES[name](wrong)
    for wrong in (True, np.bool_(1), None, [8], 1j, b"1M"):
        with pytest.raises(TypeError, match="nbytes is"):
            OF_BYTES[name](wrong)


def test_an_explanation_lists_some_candidates():
    chosen = select("allreduce", 8, size=2, machine=MACHINE)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="explain: most is"):
            chosen.explain(wrong)
    assert chosen.explain(1) != chosen.explain(None)


@pytest.mark.parametrize(
    "words",
    [
        ["select", "allreduce", "--size", "1M,256MB", "--topology", "dgx1v"],
        ["select", "allreduce", "1M, 256MB", "-n", "4"],
        ["bound", "allreduce", "dgx1v", "--size", "1M,256MB"],
        ["simulate", "allreduce", "ring", "dgx1v", "--size", "1M,256MB"],
    ],
)
def test_commands_take_lists(words):
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    assert "1 MiB" in found.output
    assert "256 MiB" in found.output


def test_a_timeline_is_of_one_size(tmp_path):
    words = ["simulate", "allreduce", "ring", "dgx1v", "--size", "1M,2M"]
    words += ["--timeline", str(tmp_path / "t.svg")]
    assert "draws one size" in CliRunner().invoke(main, words).output
