"""Readers of topology files; the format is recognised by the content.

A format is a module with two functions: ``recognises(text)`` examines a file, and
``parse(text, topology)`` fills a topology or returns another one. Files are untrusted:
their size, depth and numbers are limited, and nothing in them is run or fetched.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from collalgo.base.input_files import read_bytes, text_of
from collalgo.base.legible import legible
from collalgo.errors import TopologyError
from collalgo.topology.model import Topology
from collalgo.topology.plausible import review
from collalgo.topology.presets import JOINING, several
from collalgo.topology.readers.text import structured
from collalgo.topology.unhosted import add_hosts

#: The most bytes of a file, and the most characters of a line.
LARGEST_FILE = 32 << 20
LONGEST_LINE = 1 << 20

#: The formats in the order in which they are tried, the most specific first.
FORMATS = {
    "nccl_xml": "NCCL or RCCL system XML",
    "nccl_graph": "NCCL graph XML",
    "hwloc": "hwloc XML",
    "simgrid": "SimGrid platform XML",
    "graphml": "GraphML",
    "own": "collalgo topology",
    "slurm_yaml": "Slurm topology.yaml",
    "kueue": "Kueue Topology and Kubernetes nodes",
    "topograph": "topograph model",
    "astra_sim": "ASTRA-sim network",
    "taccl": "TACCL topology",
    "netq": "NetQ topology graph",
    "jgf": "JSON Graph Format",
    "amd_smi": "amd-smi topology",
    "rocm_smi": "rocm-smi --showtopo",
    "nvidia_smi": "nvidia-smi topo -m",
    "infiniband": "ibnetdiscover output or ibsim net",
    "torus_2qos": "OpenSM torus-2QoS.conf",
    "slurm_conf": "Slurm topology.conf",
    "htsim": "htsim topology",
    "lspci": "lspci -PP output",
    "link_list": "ns-3 or SimAI link list",
}

#: The format whose files may declare parameters.
NATIVE = "own"

#: The exceptions that a malformed file may raise in a reader.
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
             ValueError)  # fmt: skip


def read(path: Any, **parameters: Any) -> Topology:
    """Read a file of any known format.

    Parameters
    ----------
    path
        The file.
    **parameters
        Those of every machine, as for :func:`presets.load`; and other values for the
        parameters that a native file declares.

    Raises
    ------
    TopologyError
        If the file cannot be read or is too large, the format is unknown, the content
        is invalid, or there is no such parameter.
    """
    path = Path(path)
    try:
        data = read_bytes(path, LARGEST_FILE)
    except ValueError as error:
        raise TopologyError(f"{path}: {error}") from None
    joining = {name: parameters.pop(name) for name in JOINING if name in parameters}
    text, complaint = _decoded(data)
    machine = parse(text, path.name, parameters)
    if complaint:
        machine.warn(complaint)
    return several(machine, **joining)


def _decoded(data: bytes) -> tuple[str, str]:
    """The text of a file, and a warning where its encoding is guessed."""
    try:
        return text_of(data), ""
    except ValueError as error:
        text = data.decode("latin-1")
        return text, f"{error}; the file is read as Latin-1, save it as UTF-8"


def parse(
    text: str, source: str, parameters: Mapping[str, Any] | None = None
) -> Topology:
    """The topology that a text describes; see :func:`read`.

    Parameters
    ----------
    text
        The content of a file.
    source
        The name of the file, for messages.
    parameters
        Values for parameters that the text declares, which only native files do.
    """
    _check_lines(text, source)
    try:
        name = recognise(text)
        if name is None:
            raise TopologyError(f"{source}: {legible(_unknown(text))}")
        if parameters and name != NATIVE:
            raise TopologyError(
                f"{source} has no parameter {next(iter(parameters))!r}; only native "
                f"files declare their own, others have {', '.join(JOINING)}"
            )
        return _read(name, text, source, parameters or {})
    finally:
        structured.cache_clear()


def _unknown(text: str) -> str:
    """The error of a text that no reader recognises."""
    reason = structured(text).error
    detail = f" ({reason})" if reason.startswith("invalid") else ""
    return (
        f"unknown format{detail}; a native file begins with 'collalgo: topology/1'; "
        f"the known formats are {', '.join(FORMATS.values())}"
    )


def _read(name: str, text: str, source: str, parameters: Mapping[str, Any]) -> Topology:
    """The topology of a text of a format."""
    topology = Topology(Path(source).stem, f"{source} ({FORMATS[name]})")
    try:
        topology = _module(name).parse(text, topology, **parameters) or topology
        add_hosts(topology)
        review(topology)
    except TopologyError as error:
        raise TopologyError(f"{source}: {legible(str(error))}") from error
    except MALFORMED as error:
        why = legible(str(error))
        raise TopologyError(f"{source}: invalid {FORMATS[name]}: {why}") from error
    if not topology.devices():
        raise TopologyError(f"{source}: this {FORMATS[name]} has no devices")
    return topology


def recognise(text: str) -> str | None:
    """The key of the format in :data:`FORMATS`, or None."""
    return next((name for name in FORMATS if _module(name).recognises(text)), None)


def _module(name: str) -> Any:
    return import_module(f"collalgo.topology.readers.{name}")


def _check_lines(text: str, source: str) -> None:
    longest = max(map(len, text.splitlines()), default=0)
    if longest > LONGEST_LINE:
        raise TopologyError(f"{source}: a line of {longest} characters is too long")
    if "\0" in text:
        raise TopologyError(
            f"{source}: this is not a text file in UTF-8; UTF-16 needs a BOM"
        )
    if not text.strip():
        raise TopologyError(f"{source}: the file is empty")
