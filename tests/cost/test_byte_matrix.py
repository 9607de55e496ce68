"""Matrices of bytes: what is read, and what is refused."""

import numpy as np
import pytest

from collalgo import TopologyError
from collalgo.cost.byte_matrix import MOST_BYTES, MOST_RANKS, ByteMatrix


def test_the_diagonal_moves_over_no_link():
    assert ByteMatrix([[7, 1], [2, 9]]) == ByteMatrix(np.array([[0, 1], [2, 0]]))
    assert ByteMatrix([[7, 1], [2, 9]]).total == 3


def test_parts_add_up_to_one_even_without_bytes():
    for given in ([[0, 3], [1, 0]], [[0, 0], [0, 0]]):
        assert ByteMatrix(given).part.sum() == pytest.approx(1)


def test_a_matrix_is_full_if_each_rank_sends_something_to_each_other():
    assert ByteMatrix([[0, 3], [1, 0]]).is_full
    assert not ByteMatrix([[5, 3], [0, 5]]).is_full


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[0, 1, 2], [1, 0, 2]], r"shape \(2, 3\) is not square"),
        ([0, 1], r"shape \(2,\) is not square"),
        ([[0, 1], [2]], "is not square"),
        ([], "is not square"),
        (np.zeros((MOST_RANKS + 1,) * 2, int), f"{MOST_RANKS + 1} ranks exceeds"),
        ([[0, 1.5], [1, 0]], "dtype float64"),
        ([[0, "x"], [1, 0]], "no numbers of bytes"),
        ([[0, -3], [1, 0]], "-3 bytes from rank 0 to rank 1 are negative"),
        ([[0, MOST_BYTES], [1, 0]], "in total exceed"),
        ([[0, 1 << 80], [1, 0]], "no numbers of bytes"),
    ],
)
def test_what_is_no_matrix_is_refused_with_the_numbers(given, words):
    with pytest.raises(TopologyError, match=words):
        ByteMatrix(given)


def test_a_file_is_read_as_it_is_written(tmp_path):
    path = tmp_path / "matrix.csv"
    path.write_text("0, 1000\r\n20,0\r\n\n")
    assert ByteMatrix.read(path).nbytes.tolist() == [[0, 1000], [20, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,1\n", "line 1 has 2 numbers but there are 1 lines"),
        ("0,1\n1,0\n1,2\n", "line 1 has 2 numbers but there are 3 lines"),
        ("0,1\n1,0,2\n", "line 2 has 3 numbers but there are 2 lines"),
        ("0,a\n1,0\n", "line 1, number 2: 'a' is not a number of bytes"),
        ("0,1.5\n1,0\n", "'1.5' is not a number of bytes"),
        ("0,-1\n1,0\n", "-1 bytes from rank 0 to rank 1 are negative"),
        ("0,\n1,0\n", "'' is not a number of bytes"),
        ("", "is not square"),
        ("9" * 5000 + ",1\n1,1\n", "line 1, number 1: 9+ has too many digits"),
        ("0," + "9" * 400 + "\n1,0\n", "line 1, number 2: 9+ has too many digits"),
    ],
)
def test_what_is_no_matrix_in_a_file_is_refused_with_the_line(tmp_path, text, words):
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with pytest.raises(TopologyError, match=words) as caught:
        ByteMatrix.read(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing.csv", "/dev/zero"):
        with pytest.raises(TopologyError):
            ByteMatrix.read(path)
