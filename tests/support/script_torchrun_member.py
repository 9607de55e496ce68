"""A worker of an elastic torchrun that makes no calls: it waits for a size."""

import os
import sys
import time

size = os.environ["WORLD_SIZE"]
print(f"rank {os.environ['RANK']} of {size}", flush=True)
end = time.monotonic() + 60
while size != sys.argv[1]:
    assert time.monotonic() < end
    time.sleep(0.05)
