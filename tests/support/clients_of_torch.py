"""Scripts of frameworks on torch, each with the backend as its one changed line.

``clients_of_torch.py CLIENT BACKEND`` trains a network on two ranks: its last loss.
"""

import sys

import torch
from torch import nn

BACKEND = sys.argv[2]
X = torch.arange(64 * 8.0).reshape(64, 8).sin()
DATA = torch.utils.data.TensorDataset(X, X.sum(1, keepdim=True))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))


def loader():
    return torch.utils.data.DataLoader(DATA, batch_size=8)


def loss_of(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x), y)


def accelerate():
    import torch.distributed as dist
    from accelerate import Accelerator

    dist.init_process_group(BACKEND)
    accelerator = Accelerator(cpu=True)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = accelerator.prepare(model, optimizer, loader())
    for batch in data:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        accelerator.backward(loss)
        optimizer.step()
    assert accelerator.num_processes == 2
    return accelerator.gather(loss.detach()).mean().item()


def deepspeed():
    import os

    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed as ds
    import torch.distributed as dist

    ds.init_distributed(dist_backend=BACKEND)
    model = network()
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {"stage": 2},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine, *_ = ds.initialize(model=model, optimizer=optimizer, config=config)
    for batch in [*loader()][dist.get_rank() :: dist.get_world_size()]:
        loss = loss_of(engine, batch)
        engine.backward(loss)
        engine.step()
    total = loss.detach().clone()
    ds.comm.all_reduce(total)
    return total.item()


def lightning_module():
    import pytorch_lightning as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = network()

        def training_step(self, batch, _):
            loss = loss_of(self.model, batch)
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


def lightning():
    import pytorch_lightning as pl
    from pytorch_lightning.strategies import DDPStrategy

    trainer = pl.Trainer(
        strategy=DDPStrategy(process_group_backend=BACKEND),
        max_epochs=1, accelerator="cpu", devices=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(lightning_module(), loader())
    assert trainer.world_size == 2
    return trainer.callback_metrics["loss"].item()


def main():
    import torch.distributed as dist

    loss = globals()[sys.argv[1]]()
    print(f"result {dist.get_backend()} {loss:.6f}", flush=True)
    dist.destroy_process_group()


main()
