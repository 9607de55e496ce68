"""The scores of UCC, as its configuration file sets them for the layer of UCP."""

from collections.abc import Iterator
from itertools import pairwise

from collalgo.selection.peer_rules.algorithms import DEFAULT, Table


def environment(file: str, _hosts: int = 1) -> dict[str, str]:
    """The variable with which UCC follows a file."""
    return {"UCC_CONFIG_FILE": file}


def text_of(table: Table, mark: str) -> str:
    """The configuration file."""
    return f"# {mark}\nUCC_TL_UCP_TUNE={'#'.join(_tokens(table))}\n"


def _tokens(table: Table) -> Iterator[str]:
    """A token for each range of sizes, of which the end is not a part."""
    for collective, by_ranks in table.items():
        for ranks, sizes in by_ranks.items():
            for (least, name), (limit, _) in pairwise([*sizes.items(), ("inf", "")]):
                if name != DEFAULT:
                    yield f"{collective}:{least}-{limit}:[{ranks}-{ranks}]:@{name}"
