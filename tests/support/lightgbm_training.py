"""Trainings with LightGBM, imported without scikit-learn, which takes a second."""

import importlib
import os
import signal
import sys
from contextlib import suppress

import numpy as np

from collalgo import PeerFailed
from collalgo.integrations.lightgbm import train

ROUNDS = 3


def imported():
    """LightGBM, or None where it is not installed."""
    is_there = "sklearn" in sys.modules
    if not is_there:
        sys.modules["sklearn"] = None
    try:
        with suppress(ImportError, OSError):  # or the library of OpenMP is missing
            return importlib.import_module("lightgbm")
    finally:
        if not is_there:
            del sys.modules["sklearn"]


lightgbm = imported()


def parameters(learner, **others):
    return {
        "objective": "regression", "tree_learner": learner, "num_leaves": 7, "top_k": 3,
        "min_data_in_leaf": 5, "num_threads": 1, "verbose": -1, **others,
    }  # fmt: skip


def rows_of(comm, features):
    """The rows of a rank; with fewer features than ranks some reduce none."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, features))
    y = 2 * x[:, 0] + x[:, -1] ** 2
    return lightgbm.Dataset(x[comm.rank :: comm.size], y[comm.rank :: comm.size])


def model(booster):
    """The text of a model, without the parameters that it was trained with."""
    return booster.model_to_string().partition("\nparameters:")[0]


def by_sockets(comm, params, features, ports):
    """The model that LightGBM learns over its own network."""
    machines = ",".join(f"127.0.0.1:{port}" for port in ports)
    params = {
        **params, "machines": machines, "num_machines": comm.size,
        "local_listen_port": ports[comm.rank],
    }  # fmt: skip
    return model(lightgbm.train(params, rows_of(comm, features), ROUNDS))


def die_while_training(comm, last_words):
    """Rank 1 is killed after its second round; the others write the error to a file."""

    def kill(env):
        if comm.rank == 1 and env.iteration == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        train(parameters("data"), rows_of(comm, 7), comm, 500, callbacks=[kill])
    except PeerFailed as error:
        last_words.write_text(f"{error.missing} {error}")
        raise
