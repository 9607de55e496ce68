"""Damaged files of every kind are read, or refused by an error of the library."""

import pytest

from tests.support.fuzz import SUBJECTS, check, faults, real_texts


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_seeds_of_the_fuzz_are_read(name):
    for text in SUBJECTS[name].seeds:
        assert check(SUBJECTS[name], text)


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_damaged_file_is_read_or_refused(name):
    _, found = faults(name, 30, 0)
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_ten_thousand_damaged_files_are_read_or_refused(name):
    each = 10_000 // len(SUBJECTS) + 1
    read, found = faults(name, each, 1, real_texts() if name == "commands" else ())
    assert not found
    assert 0 < read < each
