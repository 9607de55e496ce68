"""Draw latency and bus bandwidth over size."""

from collections.abc import Sequence
from pathlib import Path

from collalgo.bench.records import Record


def plot(records: Sequence[Record], path: Path) -> None:
    """Write a picture of all records; its ending gives the format.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ImportError(
            "a picture needs matplotlib; install it with: pip install collalgo[plot]"
        ) from None
    mpl.use("agg")
    from matplotlib import pyplot as plt

    lines: dict[tuple[str, ...], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.size):
        if record.size:
            name = record.algorithm if record.contestant == "collalgo" else ""
            lines.setdefault(
                (record.contestant, record.collective, record.place, name), []
            ).append(record)
    figure, (latency, bandwidth) = plt.subplots(1, 2, figsize=(12, 5))
    for label, points in lines.items():
        sizes = [record.size for record in points]
        name = " ".join(filter(None, label))
        latency.loglog(sizes, [r.p50 * 1e6 for r in points], marker=".", label=name)
        bandwidth.loglog(sizes, [r.busbw / 1e9 for r in points], marker=".", label=name)
    for axes, quantity in ((latency, "time in us"), (bandwidth, "busbw in GB/s")):
        axes.set_xlabel("bytes")
        axes.set_ylabel(quantity)
        axes.grid(visible=True, which="both", alpha=0.3)
    latency.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
