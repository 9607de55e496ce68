"""The calls beside those of other libraries run as the page has them."""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import collalgo
from tests.support.paths import ROOT
from tests.support.torch_environment import BIN, NEEDS_TORCH

TEXT = (ROOT / "docs" / "coming_from.md").read_text()

#: The text of each section, by its heading.
SECTIONS = {each.partition("\n")[0]: each for each in TEXT.split("\n## ")[1:]}

#: The classes of mpi4py whose methods the page names.
OF_MPI4PY = {
    "Cartcomm", "Comm", "Distgraphcomm", "Graphcomm", "Group", "Intracomm", "Message",
    "Op", "Prequest", "Request", "Topocomm",
}  # fmt: skip

#: What mpi4py has to pass handles to C and Fortran.
OF_HANDLES = {"f2py", "fromhandle", "fromint", "py2f", "toint"}


def sections():
    """The calls of each section, in their order."""
    found = {}
    for heading, section in SECTIONS.items():
        rows = re.findall(r"^\| .* \| (.*) \|$", section, re.MULTILINE)
        calls = [call for row in rows for call in re.findall(r"`([^`]*)`", row)]
        if calls:
            found[heading] = calls
    return found


def names_of(comm):
    """What the calls are made with."""
    size = comm.size
    return {
        "comm": comm,
        "collalgo": collalgo,
        "np": np,
        "x": np.ones(4),
        "y": np.ones(4),
        "rows": np.ones((size, 4)),
        "pairs": np.zeros(4, "f8,i8"),
        "index": np.arange(4),
        "to": (comm.rank + 1) % size,
        "source": (comm.rank - 1) % size,
        "targets": [(comm.rank + 1) % size],
        "blocks": np.ones((1, 4)),
        "counts": [1],
        **dict.fromkeys(("splits", "sent", "received"), [1] * size),
        "things": [None] * size,
        "color": comm.rank % 2,
        "dims": (size, 1),
    }


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("library", sections())
def test_the_calls_beside_those_of_a_library_run(library, size):
    def on_each_rank(comm):
        names = names_of(comm)
        for call in sections()[library]:
            exec(call, names)

    collalgo.threads(on_each_rank, size, timeout=60)


def test_every_library_of_the_title_has_its_calls():
    title = TEXT.partition("\n")[0].removeprefix("# Coming from ")
    assert [*sections()] == re.split(", | or ", title)


def bare(name):
    """A name in small letters, without what tells forms of a call apart."""
    return name.lower().rstrip("_").removesuffix("_async")


def missing(library, names):
    """The names that are not in the section."""
    words = {bare(each) for each in re.findall(r"[A-Za-z]\w*", SECTIONS[library])}
    return {each for each in names if bare(each) not in words}


def functions_of(tree):
    """The names of the functions of a module or class."""
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def value_of(tree, name):
    """The literal that a module assigns to a name."""
    (found,) = (
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name
    )
    return found


def plain(name, names):
    """The blocking form of a call of mpi4py: without its ``I`` and ``_init``."""
    if name.removesuffix("_init") in names:
        name = name.removesuffix("_init")
    for shorter in (name[1:].capitalize(), name[1:]):
        if name[0] in "Ii" and shorter in names:
            return shorter
    return name


def test_the_page_names_all_calls_of_mpi4py():
    mpi4py = pytest.importorskip("mpi4py")
    path = Path(mpi4py.__file__).with_name("MPI.pyi")
    classes = [
        each
        for each in ast.parse(path.read_text()).body
        if isinstance(each, ast.ClassDef) and each.name in OF_MPI4PY
    ]
    assert len(classes) == len(OF_MPI4PY)
    names = {name for each in classes for name in public_methods(each)}
    assert len(names) > 200
    wanted = {plain(each, names) for each in names}
    assert missing("mpi4py", wanted) == set()


def public_methods(tree):
    """The methods of a class, without properties."""
    return {
        each.name
        for each in tree.body
        if isinstance(each, ast.FunctionDef)
        and each.name not in OF_HANDLES
        and not each.name.startswith("_")
        and not any(ast.unparse(one) == "property" for one in each.decorator_list)
    }


@NEEDS_TORCH
def test_the_page_names_all_functions_of_torch():
    (path,) = BIN.parent.glob(
        "lib/python*/site-packages/torch/distributed/distributed_c10d.py"
    )
    tree = ast.parse(path.read_text())
    names = functions_of(tree).intersection(value_of(tree, "__all__"))
    assert len(names) > 40
    assert missing("torch.distributed", names) == set()


def test_the_page_names_what_scripts_for_horovod_find():
    folder = ROOT / "collalgo" / "integrations" / "horovod"
    tree = ast.parse((folder / "__init__.py").read_text())
    imports = [each for each in tree.body if isinstance(each, ast.ImportFrom)]
    there = {alias.asname for each in imports for alias in each.names} - {None}
    absent = value_of(ast.parse((folder / "absent.py").read_text()), "_INSTEAD")
    of_build = ("_built", "_enabled", "_supported")
    names = {each for each in there if not each.endswith(of_build)}
    assert len(names) > 40
    assert missing("Horovod", names.union(absent)) == set()


def test_the_page_names_all_functions_of_nccl():
    header = "lib/python*/site-packages/nvidia/nccl/include/nccl.h"
    found = [*Path(sys.prefix).glob(header), *BIN.parent.glob(header)]
    if not found:
        pytest.skip("NCCL is not installed")
    names = {
        *re.findall(
            r"^\w[\w ]*[ *](nccl[A-Z]\w*)\(", found[0].read_text(), re.MULTILINE
        )
    }
    assert len(names) > 40
    parameters = {each for each in names if each.startswith("ncclParam")}
    assert missing("NCCL", names - parameters) == set()
