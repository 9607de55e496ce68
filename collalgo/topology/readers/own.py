"""The native format; see :mod:`collalgo.topology.document`."""

import re
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.document import VERSION, build
from collalgo.topology.model import Topology
from collalgo.topology.readers.text import json_of, yaml_of


def recognises(text: str) -> bool:
    """A document with the key ``collalgo``."""
    return bool(
        re.search(r"""^[ \t]*[{"']{0,3}collalgo["']?[ \t]*:""", text, re.MULTILINE)
    )


def parse(text: str, _topology: Topology, **parameters: Any) -> Topology:
    """The topology of the document, with other values for some of its parameters."""
    value = json_of(text)
    documents = yaml_of(text) if value is None else [value]
    if len(documents) != 1:
        raise TopologyError(
            f"{len(documents)} documents; there must be one, with {VERSION}"
        )
    return build(documents[0], parameters)
