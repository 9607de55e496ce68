"""What runs is what is announced, for questions at random."""

import json
import os
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest

import collalgo
from collalgo import CollalgoError, select, threads
from collalgo.schedule.collective import COLLECTIVES
from tests.support.leisure import at_leisure
from tests.support.random_questions import (
    BLOCKS,
    REPRODUCIBLE,
    fields_of,
    random_algorithm,
    random_environment,
    world_of_hosts,
    world_on_a_host,
)

#: Cells of worlds whose ranks are threads.
CALLED = 300


def outcome(ask):
    """The name of an algorithm, or the kind of error."""
    try:
        return ask()
    except CollalgoError as error:
        return type(error)


def announced(pricer, fields, nbytes):
    collective, *_, algorithm, _, reproducible = fields
    chosen = select(
        collective, nbytes, topology=pricer, algorithm=algorithm,
        reproducible=reproducible,
    )  # fmt: skip
    return chosen.decision.name


@pytest.mark.parametrize(
    ("hosts", "worlds", "cells"),
    at_leisure(
        [("one", 20, 1600), ("one", 10, 800), ("several", 6, 400)],
        {("one", 10, 800), ("several", 6, 400)},
    ),
)
def test_what_would_run_is_what_is_announced(hosts, worlds, cells, tmp_path, run):
    differ, names = [], set()
    for seed in range(worlds):
        rng = np.random.default_rng([seed, len(hosts)])
        programs = (world_on_a_host if hosts == "one" else world_of_hosts)(rng)
        some = rng.choice(list(COLLECTIVES), 3, replace=False)
        with patch.dict(os.environ, random_environment(rng, tmp_path)):
            for _ in range(-(-cells // worlds)):
                collective = str(rng.choice(some))
                fields, nbytes = fields_of(rng, collective, programs.size, 30)
                said = outcome(partial(announced, programs.pricer, fields, nbytes))
                does = outcome(partial(run, programs, fields))
                names.add(said)
                if said != does:
                    differ.append((programs.size, fields, nbytes, said, does))
    assert not differ
    assert len(names) > 40


def call(comm, rng, collective):
    """Make a random call: its buffer's bytes, and the arguments that decide."""
    blocks = comm.size if collective in BLOCKS else 1
    count = int(2 ** rng.uniform(0, 11)) if collective != "barrier" else 0
    asked = {"algorithm": random_algorithm(rng, collective)}
    if collective in REPRODUCIBLE and rng.random() < 0.2:
        asked["reproducible"] = True
    method = partial(getattr(comm, collective), **asked)
    block, whole = np.ones(count), np.ones((blocks, count))
    passed = {"barrier": (), "reduce_scatter": (whole,), "alltoall": (whole,)}
    if collective == "scatter":
        out = np.ones(count)
        passed["scatter"] = (whole if comm.rank == 0 else out,)
    made = outcome(lambda: method(*passed.get(collective, (block,))) is None)
    return 8 * count * blocks, asked, made


def calls_of(comm, seed, cells, folder):
    """Make random calls: the announced and the recorded algorithm of each."""
    rng = np.random.default_rng([seed, comm.size])
    said = []
    for _ in range(cells):
        collective = str(rng.choice(list(COLLECTIVES)))
        nbytes, asked, made = call(comm, rng, collective)
        found = outcome(
            lambda: comm.select(collective, nbytes, **asked).decision.name  # noqa: B023
        )
        assert isinstance(found, type) == isinstance(made, type), (collective, asked)
        if not isinstance(made, type):
            said.append((collective, found))
    collalgo.dump(folder / str(comm.rank))
    (path,) = (folder / str(comm.rank)).iterdir()
    (mine,) = (
        each
        for each in json.loads(path.read_text())["communicators"]
        if (each["name"], each["rank"]) == (comm.label, comm.rank)
    )
    return said, [(r["collective"], r["algorithm"]) for r in mine["records"]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_what_the_flight_recorder_says_is_what_is_announced(size, tmp_path):
    rng = np.random.default_rng(size)
    with patch.dict(os.environ, random_environment(rng, tmp_path)):
        each = partial(calls_of, seed=size, cells=CALLED // 5, folder=tmp_path)
        for said, recorded in threads(each, size):
            assert said == recorded
            assert len(said) > CALLED // 10
