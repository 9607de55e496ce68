"""Values that ranks contribute under torch, exact in every dtype."""

import torch
import torch.distributed as dist

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.complex64,
)


def values(rank, dtype=torch.float32, count=6):
    """What a rank contributes: small whole numbers, exact in every dtype."""
    return ((torch.arange(count) * (rank + 2) + rank) % 5).to(dtype)


def equal(found, expected):
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert torch.equal(found, expected), (found, expected)


def total(dtype, ranks, count=6):
    return sum(values(rank, dtype, count) for rank in ranks)


def finished(work):
    """Wait for a call in the background in one of the ways there are."""
    if dist.get_rank() % 2:
        assert work.wait()
    else:
        work.get_future().wait()
    assert work.is_completed()
