"""A worker of an elastic torchrun, which waits for a size: ``SIZE [calls]``.

It makes no calls, or those of our backend. The first worker may be alone for a while;
the file ``both`` says that it was not always so.
"""

import os
import sys
import time
from pathlib import Path

size = os.environ["WORLD_SIZE"]
if "calls" in sys.argv:
    import torch
    from torch import distributed

    distributed.init_process_group("collalgo")
    total = torch.ones(1)
    distributed.all_reduce(total)
    assert total == int(size)
print(f"rank {os.environ['RANK']} of {size}", flush=True)
if size == "2":
    Path("both").touch()
end = time.monotonic() + 60
while size != sys.argv[1] or not Path("both").exists():
    assert time.monotonic() < end
    time.sleep(0.05)
