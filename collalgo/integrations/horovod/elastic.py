"""Elastic training in the style of ``horovod.torch.elastic``."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from collalgo.elastic.running import run as run_elastic
from collalgo.elastic.state import State
from collalgo.integrations.horovod.absent import reason_of_absence
from collalgo.integrations.horovod.basics import init


class TorchState(State):
    """The state of a job: see :class:`collalgo.elastic.State`.

    Parameters
    ----------
    model, optimizer
        A module and its optimizer.
    **values
        Further values, as numbers and tensors.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any):
        given = {"model": model, "optimizer": optimizer}
        named = {name: each for name, each in given.items() if each is not None}
        super().__init__(**named, **values)
        self.__dict__["_reset_callbacks"] = []

    def register_reset_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        """Call functions after each change of the members."""
        self.__dict__["_reset_callbacks"] += callbacks

    def on_reset(self) -> None:
        """Call the functions that were registered."""
        for callback in self.__dict__["_reset_callbacks"]:
            callback()

    def check_host_updates(self) -> None:
        """Do nothing: members join at a commit."""


def run(train: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``train(state, ...)`` again after each change of the members.

    Within it ``hvd.rank()`` and ``hvd.size()`` are those of the present members; see
    :func:`collalgo.elastic.run`.
    """

    @wraps(train)
    def running(state: TorchState, *args: Any, **named: Any) -> Any:
        init()
        starts = []

        def again(_comm: Any, state: TorchState, *args: Any, **named: Any) -> Any:
            starts.append(1)
            if len(starts) > 1:
                state.on_reset()
            return train(state, *args, **named)

        return run_elastic(again)(state, *args, **named)

    return running


def __getattr__(name: str) -> Any:
    if name == "ElasticSampler":
        raise AttributeError(
            "collalgo.integrations.horovod.elastic has no ElasticSampler; use "
            "collalgo.elastic.Sampler"
        )
    raise AttributeError(reason_of_absence(f"elastic.{name}"))
