"""Ranks on several hosts that make different calls are told so, and not after minutes.

That is so even if the calls wait for messages that nobody sends. Who is late is in no
different call.
"""

import re
from collections import defaultdict

import pytest

from tests.bootstrap.test_hosts import all_do as all_do_by_mpi
from tests.support.leisure import at_leisure
from tests.support.remote_jobs import all_do

LAYOUTS = [
    "1+1", "2+1", "1+1+1", "2+2", "3+2", "4+3", "4+4", "6+6", "8+8", "9+8",
]  # fmt: skip


def told(output):
    """For each case who was told what."""
    found = defaultdict(dict)
    for rank, case, what in re.findall(r"told (\d+) (.*?): (.*?)\.\n", output):
        found[case][int(rank)] = what
    return found


def check_all_are_told(output, layout):
    size = sum(map(int, layout.split("+")))
    found = told(output)
    assert found
    for case, sentences in found.items():
        assert set(sentences) == set(range(size)), (case, sentences)
        (sentence,) = set(sentences.values())
        odd = case.partition(", ")[2]
        assert re.search(rf"\b{odd} (passed|called) ", sentence), (case, sentence)


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("layout", at_leisure(["1+1", "2+1", "1+1+1"], {"2+1"}))
def test_calls_of_which_no_message_meets_another_are_told_to_all(layout):
    output = all_do("differ_briefly", layout).stdout
    check_all_are_told(output, layout)
    assert re.search(r"broadcast.*: rank \d passed root [01] but rank \d pass", output)


@pytest.mark.deadline
@pytest.mark.slow
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_differs_is_told_to_all(layout):
    check_all_are_told(all_do("differ", layout).stdout, layout)


@pytest.mark.deadline
@pytest.mark.mpi
def test_calls_that_differ_are_told_to_all_by_mpi():
    check_all_are_told(all_do_by_mpi("mpich", "differ_briefly", "2+2"), "2+2")


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("layout", at_leisure(LAYOUTS, {"2+2"}))
def test_the_ranks_of_a_group_are_told_and_no_others(layout):
    found = told(all_do("differ_in_groups", layout).stdout)
    size = sum(map(int, layout.split("+")))
    assert set(found.pop("group")) == {0, size - 1}
    for case, sentences in found.items():
        half = range(int(case[-1]), size, 2)
        assert set(sentences) == set(half)
        assert len(set(sentences.values())) == 1
    assert len(found) == (size > 2) + (size > 3)


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_messages_that_differ_are_told_to_both_even_without_elements():
    found = told(all_do("differing_messages", "2+1").stdout)
    assert [set(found[str(case)]) for case in range(4)] == [{0, 2}] * 4
    expected = ("3 elements", "int64", "0 elements", "300000 elements")
    for case, what in enumerate(expected):
        (sentence,) = set(found[str(case)].values())
        assert sentence.startswith("message")
        assert what in sentence


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_what_nobody_has_asked_for_is_told_when_the_time_is_up():
    check_all_are_told(all_do("differ_unasked", "2+1").stdout, "2+1")


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("layout", at_leisure(LAYOUTS, {"2+1"}))
def test_who_is_late_makes_no_different_call(layout):
    all_do("dawdle", layout)


@pytest.mark.slow
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_calls_never_fail_however_late(layout):
    all_do("wander", layout)
