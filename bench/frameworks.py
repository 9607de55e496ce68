"""Train with a framework on torch over a backend: the loss, and the time of a step.

Run by a launcher, in an environment with the framework (``make clients``)::

    collalgo run -n 2 python -m collalgo.bench.frameworks accelerate collalgo
    horovodrun -np 2 --gloo python -m collalgo.bench.frameworks horovod gloo

The backend is the one line of a script that differs; for Horovod it is the module:
that of this package, or its own with its gloo. ``python -m collalgo.bench.clients
frameworks`` compares the times.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import click
from collalgo.bench.training import keep_memory, network

from collalgo.cli.group import SETTINGS
from collalgo.cli.options import FiniteRange

#: Rows of a batch.
ROWS = 8

#: The steps at the begin that are not timed: buffers move and connections are made.
WARMUP = 5

#: The configuration of DeepSpeed: it shares out gradients and the optimizer's state.
OF_DEEPSPEED = {
    "train_micro_batch_size_per_gpu": ROWS,
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
}


@dataclass
class Job:
    """What each framework trains, and when its steps began.

    Parameters
    ----------
    backend
        The backend of torch, such as ``"gloo"``.
    parameters
        The number of parameters of the network.
    steps
        The number of steps of each rank.
    rank, size
        The place of this rank; Lightning ends with an environment without it.
    """

    backend: str
    parameters: int
    steps: int
    rank: int
    size: int
    begins: list[float] = field(default_factory=list)

    def network(self) -> Any:
        """The network, whose parameters are the same on all ranks."""
        import torch

        torch.manual_seed(0)
        return network(self.parameters)

    def shared_out(self, model: Any) -> Any:
        """The batches of this rank."""
        return [*self.batches(model)][self.rank :: self.size]

    def batches(self, model: Any) -> Any:
        """The batches of all ranks."""
        import torch

        rows = ROWS * self.steps * self.size
        width = next(model.parameters()).shape[1]
        data = torch.arange(float(rows * width)).reshape(rows, width).sin()
        return torch.utils.data.DataLoader(data, batch_size=ROWS)

    def loss(self, model: Any, batch: Any) -> Any:
        """The loss of a batch; each step calls this once."""
        self.begins.append(perf_counter())
        return model(batch).square().mean()

    def seconds(self) -> float:
        """The time of a step: the median."""
        begins = self.begins[WARMUP:]
        return median(b - a for a, b in pairwise(begins))


def place() -> tuple[int, int]:
    """The rank and the number of ranks, as the launcher or that of Horovod says."""
    names = ("RANK", "WORLD_SIZE"), ("HOROVOD_RANK", "HOROVOD_SIZE")
    rank, size = next(pair for pair in names if pair[0] in os.environ)
    return int(os.environ[rank]), int(os.environ[size])


def optimizer_of(model: Any) -> Any:
    """The optimizer of a model's parameters."""
    import torch

    return torch.optim.SGD(model.parameters(), lr=0.1)


def accelerate(job: Job) -> float:
    """Train with Accelerate: the mean of the last losses of all ranks."""
    import torch.distributed as dist
    from accelerate import Accelerator

    dist.init_process_group(job.backend)
    accelerator = Accelerator(cpu=True)
    plain = job.network()
    prepared = accelerator.prepare(plain, optimizer_of(plain), job.batches(plain))
    model, optimizer, data = prepared
    for batch in data:
        optimizer.zero_grad()
        loss = job.loss(model, batch)
        accelerator.backward(loss)
        optimizer.step()
    assert accelerator.num_processes == job.size
    mean: float = accelerator.gather(loss.detach()).mean().item()
    return mean


def deepspeed(job: Job) -> float:
    """Train with DeepSpeed: the sum of the last losses of all ranks."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed as ds

    ds.init_distributed(dist_backend=job.backend)
    model = job.network()
    optimizer = optimizer_of(model)
    engine, *_ = ds.initialize(model=model, optimizer=optimizer, config=OF_DEEPSPEED)
    for batch in job.shared_out(model):
        loss = job.loss(engine, batch)
        engine.backward(loss)
        engine.step()
    total = loss.detach().clone()
    ds.comm.all_reduce(total)
    found: float = total.item()
    return found


def horovod(job: Job) -> float:
    """Train in the style of Horovod: the mean of the last losses of all ranks."""
    is_ours = job.backend == "collalgo"
    name = "collalgo.integrations.horovod" if is_ours else "horovod.torch"
    hvd = import_module(name)
    hvd.init()
    if not is_ours and not hvd.gloo_enabled():
        raise click.ClickException("Horovod runs without gloo; pass --gloo to it")
    model = job.network()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    named = model.named_parameters()
    optimizer = hvd.DistributedOptimizer(optimizer_of(model), named_parameters=named)
    for batch in job.shared_out(model):
        optimizer.zero_grad()
        loss = job.loss(model, batch)
        loss.backward()
        optimizer.step()
    mean: float = hvd.allreduce(loss.detach()).item()
    hvd.shutdown()
    return mean


def module_of(job: Job, model: Any) -> Any:
    """The module of Lightning that trains a model."""
    import pytorch_lightning as pl

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any, _: int) -> Any:
            loss = job.loss(self.model, batch)
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self) -> Any:
            return optimizer_of(self)

    return Module()


def lightning(job: Job) -> float:
    """Train with Lightning: the mean of the last losses of all ranks."""
    import pytorch_lightning as pl
    from pytorch_lightning.strategies import DDPStrategy

    trainer = pl.Trainer(
        strategy=DDPStrategy(process_group_backend=job.backend),
        max_epochs=1, accelerator="cpu", devices=job.size, logger=False,
        enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    model = job.network()
    trainer.fit(module_of(job, model), job.batches(model))
    assert trainer.world_size == job.size
    mean: float = trainer.callback_metrics["loss"].item()
    return mean


#: The frameworks: functions that train, and return a loss.
FRAMEWORKS: dict[str, Callable[[Job], float]] = {
    each.__name__: each for each in (accelerate, deepspeed, horovod, lightning)
}


@click.command(context_settings=SETTINGS)
@click.argument("framework", type=click.Choice([*FRAMEWORKS]))
@click.argument("backend")
@click.option(
    "--parameters",
    type=FiniteRange(0, min_open=True),
    default=1,
    show_default=True,
    help="Millions of parameters.",
)
@click.option(
    "--steps",
    type=click.IntRange(WARMUP + 2),
    default=60,
    show_default=True,
    help="Steps of each rank.",
)
def main(framework: str, backend: str, parameters: float, steps: int) -> None:
    """Train with FRAMEWORK over BACKEND: the loss, and the microseconds of a step."""
    import torch
    import torch.distributed as dist

    keep_memory()
    torch.set_num_threads(1)
    job = Job(backend, int(parameters * 1e6), steps, *place())
    loss = FRAMEWORKS[framework](job)
    used = dist.get_backend() if dist.is_initialized() else backend
    print(f"result {used} {loss:.6g}", flush=True)
    if job.rank == 0:
        print(f"{framework} {job.parameters} {1e6 * job.seconds():.0f}", flush=True)
    if dist.is_initialized():
        dist.barrier()  # or gloo may abort a rank that ends before another
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
