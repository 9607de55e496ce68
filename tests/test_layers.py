"""The tree is the architecture: imports point down, and nothing goes in a circle.

The order of the layers is that of the contracts in pyproject.toml, which import-linter
holds for Python; here compiled code is held to it as well.
"""

import ast
import re

import networkx as nx
import pytest

from tests.support.imports import edges, imports, modules
from tests.support.paths import ROOT

tomllib = pytest.importorskip("tomllib", reason="from Python 3.11 on")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS = CONTRACTS["contracts"][0]["layers"]

#: Modules of the package's root, and what belongs to no layer.
FACE = {"__init__", "__main__", "_version", "errors"}

#: A call of :func:`collalgo.base.hooks.register` with two names.
REGISTERED = re.compile(r'^register\("([^"]+)", "', re.MULTILINE)

#: What an algorithm file may import of the standard library: no arrays, no files.
PURE = {
    *("collections", "dataclasses", "functools", "itertools", "math", "operator"),
    "typing",
}

#: Modules of collalgo/algorithms that are no algorithms.
ABOUT_ALGORITHMS = {
    *("__init__", "catalogue", "first_use", "literature", "row", "table", "verify"),
}


def layer(module):
    """The layer of a module; compiled code belongs to the layer that it serves."""
    parts = module.removeprefix("collalgo.").removeprefix("_kernels.").split(".")
    return parts[0]


def test_the_root_holds_the_face_and_the_errors():
    found = {file.stem for file in (ROOT / "collalgo").glob("*.py")}
    assert found == FACE


def test_every_folder_is_a_layer():
    found = {
        folder.name
        for folder in (ROOT / "collalgo").iterdir()
        if (folder / "__init__.py").exists()
    }
    assert found == {*LAYERS, "_kernels"} - {"__main__"}


def test_imports_point_down_in_compiled_code_too():
    height = {name: -number for number, name in enumerate(LAYERS)}
    height |= {"errors": -100, "_version": -100, "bench": 1}
    upwards = [
        f"{module} imports {source}"
        for module, source in edges()
        if layer(module) in height and layer(source) in height
        if height[layer(module)] < height[layer(source)]
        if (module, layer(source)) != ("collalgo.cli.main", "bench")
    ]
    assert not upwards


def test_nothing_imports_in_a_circle():
    graph = nx.DiGraph(edges())
    circles = [c for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert not circles


#: What a lower layer calls of a higher one by its registered name, and why.
HOOKS = {
    "Topology.load": "a constructor, of the presets, which build a Topology",
    "Topology.read": "a constructor, of the readers, which build a Topology",
    "Topology.detect": "a constructor, of what looks at the machine",
    "Topology.without": "derives a Topology, which its module imports",
    "Topology.degraded": "derives a Topology, which its module imports",
    "Topology.write": "a method, of the format, which reads as well",
    "Topology.svg": "a method for notebooks, of the pictures, which few need",
    "Topology.obstacle to a picture": "the same",
    "Topology.of": "a constructor from a communicator, two layers above",
    "init": "a call without a communicator makes the world at first use",
    "world of MPI": "init under mpiexec; mpi4py is optional",
    "communicator of mpi4py": "comm= may be one of mpi4py, which is optional",
    "dtype of torch": "arrays may be tensors of torch, which is optional",
    "narrow array of torch": "arrays may be tensors of torch, which is optional",
    "empty tensor of torch": "tensors that only the root of a broadcast knows",
    "new array of JAX": "the same for arrays of JAX",
    "new tensor of torch": "results of tensors are tensors of torch, which is optional",
}


def test_calls_upwards_are_those_with_a_reason():
    texts = [file.read_text() for files in modules().values() for file in files]
    registered = {name for text in texts for name in REGISTERED.findall(text)}
    assert registered == set(HOOKS)


def test_no_module_imports_the_public_face():
    through = {
        module
        for module, source, name in imports()
        if source == "collalgo" and f"collalgo.{name}" not in modules()
    }
    assert through <= {"collalgo"}


def test_private_names_stay_in_their_module():
    taken = [
        f"{module} takes {name} of {source}"
        for module, source, name in imports()
        if name.startswith("_") and not name.startswith("__")
        if f"{source}.{name}" not in modules()
    ]
    assert not taken


def algorithm_files():
    files = sorted((ROOT / "collalgo" / "algorithms").glob("*.py"))
    return [file for file in files if file.stem not in ABOUT_ALGORITHMS]


def sources_of(node):
    """The modules that an import statement of an algorithm file names."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if node.module == "collalgo.algorithms":
        return [f"{node.module}.{name.name}" for name in node.names]
    return [node.module]


def test_algorithm_files_import_the_vocabulary_and_each_other():
    files = algorithm_files()
    own = {f"collalgo.algorithms.{file.stem}" for file in files} | {"collalgo.errors"}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for source in sources_of(node):
                assert (
                    source.startswith("collalgo.schedule")
                    or source in own
                    or source.partition(".")[0] in PURE
                ), f"{file.name} imports {source}"
