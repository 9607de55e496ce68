"""Mutated topology files for as long as you like: no crash, no hang, no flood.

Run ``python -m tests.support.fuzz --seconds 3600``. Seeds are the small files of the
tests and, where they are at hand, the real ones of ``../shared/topologies``. A reader
may raise TopologyError and nothing else, within seconds and a bound on memory.
"""

import faulthandler
import random
import resource
import time
import traceback
from pathlib import Path

import click

from collalgo import TopologyError
from collalgo.topology.readers import parse
from tests.support.mutation import mutated
from tests.support.shared_files import FOLDER, files
from tests.support.small_files import SMALL

#: What one file may take: processor seconds, and MiB of address space for all.
SECONDS, MEBIBYTES = 20.0, 4096


def seeds():
    """Texts to begin with."""
    texts = [text for text, _, _ in SMALL.values()]
    if FOLDER.is_dir():
        for name in files():
            data = (FOLDER / name).read_bytes()
            if b"\0" not in data:
                texts.append(data.decode(errors="replace"))
    return texts


def check(text):
    """Whether a text is read; anything but TopologyError is a fault."""
    start = time.process_time()
    faulthandler.dump_traceback_later(5 * SECONDS, exit=True)  # it hangs
    try:
        parse(text, "fuzzed")
        good = True
    except TopologyError:
        good = False
    finally:
        faulthandler.cancel_dump_traceback_later()
    took = time.process_time() - start
    if took > SECONDS:
        raise TimeoutError(f"{took:.1f} s")
    return good


@click.command()
@click.option("--seconds", default=60.0, help="How long.")
@click.option("--seed", default=0, help="Of the dice.")
@click.option("--keep", default="/tmp", help="Where to write what went wrong.")
def main(seconds, seed, keep):
    """Mutate and read."""
    limit = MEBIBYTES << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    dice, texts = random.Random(seed), seeds()
    until = time.monotonic() + seconds
    read = refused = 0
    faults = {}
    while time.monotonic() < until:
        text = mutated(dice.choice(texts), texts, dice)
        try:
            good = check(text)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} in {where.filename}:{where.lineno}"
            if key not in faults:
                path = Path(keep, f"fault{len(faults)}.txt")
                path.write_text(text, errors="replace")
                click.echo(f"{key}: {str(error)[:200]}; see {path}")
            faults[key] = faults.get(key, 0) + 1
            continue
        read, refused = read + good, refused + (not good)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    click.echo(
        f"{read} texts read, {refused} refused, {len(faults)} faults; {peak} MiB"
    )
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
