"""A member of an elastic job in the style of Horovod: one is killed, and comes back."""

import os
import signal
import time

import torch
from torch import nn

import collalgo.integrations.horovod as hvd

#: The steps of two members.
STEPS = 6


@hvd.elastic.run
def train(state):
    print(f"{hvd.size()} members", flush=True)
    while state.step < STEPS:
        restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        if (state.step, hvd.rank(), restarts) == (3, 1, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        state.optimizer.zero_grad()
        state.model(torch.ones(1, 4)).square().sum().backward()
        state.optimizer.step()
        state.step += hvd.size() - 1
        time.sleep(0.02 * (2 - hvd.size()))
        state.commit()
    return float(state.model.weight.detach().sum())


def main():
    hvd.init()
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
    state.register_reset_callbacks([lambda: print("reset", flush=True)])
    print(f"sum {train(state):.6f}", flush=True)


main()
