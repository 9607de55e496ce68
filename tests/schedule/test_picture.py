"""Pictures of schedules: arrows and labels that do not cover each other."""

from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from collalgo.algorithms.catalogue import find
from collalgo.schedule import recv, send, trace
from collalgo.schedule.picture import LETTER, arrows_of, svg
from collalgo.schedule.replay import Replay


def schedules_of(name, size, collective="allreduce"):
    schedule = find(collective, name, size).schedule
    return [trace(schedule, rank, size, 0) for rank in range(size)]


def labels(root):
    """Where each label of a message is: left, right and the line it stands on."""
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("fill") != "#000000":
            x, width = float(text.get("x")), LETTER * len(text.text)
            yield x - width / 2, x + width / 2, float(text.get("y"))


@pytest.mark.parametrize("name", ["ring", "two_shot", "double_tree", "bine"])
def test_no_label_covers_another(name):
    root = ET.fromstring(svg(schedules_of(name, 8), name))
    found = list(labels(root))
    assert len(found) >= 8 * 3
    assert not [
        (a, b)
        for a, b in combinations(found, 2)
        if a[0] < b[1] and b[0] < a[1] and abs(a[2] - b[2]) < 9
    ]


@pytest.mark.parametrize("size", [2, 3, 16])
def test_messages_on_a_track_of_a_step_have_ways_apart(size):
    arrows = arrows_of(Replay(schedules_of("two_shot", size)))
    assert len(arrows) == 2 * size * (size - 1)
    taken = set()
    for arrow in arrows:
        low, high = sorted((arrow.sender, arrow.receiver))
        for column in range(low, high):
            assert (arrow.out, arrow.track, column) not in taken
            taken.add((arrow.out, arrow.track, column))


def test_a_message_that_is_received_in_a_later_step_is_drawn_to_it():
    def late(group):
        if group.rank == 0:
            yield send(1, group.whole)
        else:
            yield ()
            yield recv(0, group.whole)

    root = ET.fromstring(svg([trace(late, rank, 2, 0) for rank in range(2)], "late"))
    (arrow,) = (one for one in root.iter() if one.get("marker-end"))
    assert float(arrow.get("y2")) - float(arrow.get("y1")) > 20


def test_of_many_messages_only_the_arrows_are_drawn():
    root = ET.fromstring(svg(schedules_of("two_shot", 24), "many"))
    assert sum(one.get("marker-end") is not None for one in root.iter()) == 2 * 24 * 23
    assert len(list(labels(root))) == 2  # of the colours
    assert float(root.get("height")) < 3000
