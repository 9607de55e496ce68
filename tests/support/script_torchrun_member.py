"""A worker of an elastic torchrun, which waits for a size: ``SIZE [calls]``.

It makes no calls, or those of our backend.
"""

import os
import sys
import time

size = os.environ["WORLD_SIZE"]
if "calls" in sys.argv:
    import torch
    from torch import distributed

    distributed.init_process_group("collalgo")
    total = torch.ones(1)
    distributed.all_reduce(total)
    assert total == int(size)
print(f"rank {os.environ['RANK']} of {size}", flush=True)
end = time.monotonic() + 60
while size != sys.argv[1]:
    assert time.monotonic() < end
    time.sleep(0.05)
