"""LightGBM learns over our collectives what it learns over its sockets."""

import sys
from functools import partial

import pytest

import collalgo
from collalgo.integrations.lightgbm import network, train
from tests.support.leisure import at_leisure
from tests.support.lightgbm_training import (
    ROUNDS,
    by_sockets,
    die_while_training,
    lightgbm,
    model,
    parameters,
    rows_of,
)
from tests.support.ports import free_ports

pytestmark = pytest.mark.skipif(
    lightgbm is None, reason="LightGBM is not installed: pip install '.[lightgbm]'"
)


@pytest.mark.parametrize("learner", ["data", "voting"])
@pytest.mark.parametrize("size", at_leisure([2, 3, 4, 8], {2, 3}))
def test_the_model_is_that_of_its_sockets(size, learner):
    ports = {features: free_ports(size) for features in (7, 2)}

    def on_each_rank(comm):
        for features, each in ports.items():
            params = parameters(learner, num_machines=99)
            found = model(train(params, rows_of(comm, features), comm, ROUNDS))
            params = parameters(learner)
            assert found == by_sockets(comm, params, features, each)
            texts = comm.allgather_objects(found)
            assert len(set(texts)) == 1 or learner == "voting"

    collalgo.threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", [2, 3])
def test_reducers_of_large_elements_and_the_order_of_ranks_give_the_same_model(size):
    """Splits of hundreds of categories are reduced in place, in a single buffer."""

    def on_each_rank(comm):
        def trained(reproducible=False, **others):
            params = parameters("data", **others)
            with network(comm, reproducible=reproducible) as needed:
                data = rows_of(comm, 7)
                return model(lightgbm.train(params | needed, data, ROUNDS))

        usual = trained()
        assert trained(max_cat_threshold=900) == usual
        assert trained(reproducible=True) == usual
        assert trained(use_quantized_grad=True) != usual

    collalgo.threads(on_each_rank, size, timeout=60)


def test_one_rank_trains_alone():
    def on_each_rank(comm):
        params = parameters("serial")
        alone = model(lightgbm.train(params, rows_of(comm, 7), ROUNDS))
        assert model(train({**params}, rows_of(comm, 7), None, ROUNDS)) == alone

    collalgo.threads(on_each_rank, 1)


def test_a_killed_rank_ends_the_training_of_the_others(tmp_path):
    dying = partial(die_while_training, last_words=tmp_path / "words")
    with pytest.raises(collalgo.CollalgoError, match="rank 1 was killed by SIGKILL"):
        collalgo.spawn(dying, 2)
    words = (tmp_path / "words").read_text()
    assert words.startswith(("(1,) reduce_scatter", "(1,) allgather"))
    assert "rank 1 is gone: its process ended" in words


def test_errors_of_others_leave_the_training_as_they_are():
    def fail(_predictions, _data):
        raise ZeroDivisionError("of the objective")

    def on_each_rank(comm):
        params = {**parameters("data"), "objective": fail}
        with pytest.raises(ZeroDivisionError, match="of the objective"):
            train(params, rows_of(comm, 2), comm, 1)
        params = parameters("feature")  # which LightGBM has only in its own program
        with pytest.raises(lightgbm.basic.LightGBMError, match="feature parallel"):
            train(params, rows_of(comm, 2), comm, 1)

    collalgo.threads(on_each_rank, 2)


def test_what_cannot_be_has_an_error(monkeypatch):
    def on_each_rank(comm):
        refused = pytest.raises(RuntimeError, match="is in the network of another")
        with network(comm), refused, network(comm):
            pass

    collalgo.threads(on_each_rank, 2)
    monkeypatch.setitem(sys.modules, "lightgbm.basic", None)
    with pytest.raises(ImportError, match=r"pip install 'collalgo\[lightgbm\]'"):
        train({}, None)
