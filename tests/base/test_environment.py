"""The variables of the environment: one table, checked, documented and complete."""

import re
import warnings
from pathlib import Path

import pytest

import collalgo
from collalgo.base import environment
from collalgo.base.environment import VARIABLES, Variable, algorithm, warn_unknown
from collalgo.bootstrap.host_inventory import described
from collalgo.comm import current, world
from collalgo.errors import VariableError
from collalgo.schedule.collective import COLLECTIVES
from tests.support.paths import ROOT

pytestmark = pytest.mark.usefixtures("alone")

NAMES = {variable.name for variable in environment.known(COLLECTIVES)}

WRONG = {
    "TIMEOUT": ["-1", "0", "nan", "soon", ""],
    "SILENCE": ["0", "inf", "long"],
    "ENGINE": ["foo", "MPI "],
    "TOPOLOGY": ["/nonexist", "/"],
    "RULES": ["/nonexist", "/"],
    "SECRET": ["abc", "xyz"],
    "CUDA_AWARE": ["yes", "2"],
    "ONE_KERNEL": ["-1", "4M", "1.5"],
    "RSH": ["ssh 'x"],
    "STORE": ["host", "host:", ":80", "host:99999", "host:x"],
}

RIGHT = {
    "TIMEOUT": ("inf", float("inf")),
    "SILENCE": ("2.5", 2.5),
    "ENGINE": ("ucx", "ucx"),
    "INTERFACES": ("eth0,,ib0", ["eth0", "ib0"]),
    "SECRET": ("00ff", b"\0\xff"),
    "CUDA_AWARE": ("0", "0"),
    "ONE_KERNEL": ("0", 0),
    "RSH": ("ssh -p 'a b'", ("ssh", "-p", "a b")),
    "STORE": ("a,b:80", (["a", "b"], 80)),
    "HOST": ("h", "h"),
}

BY_NAME = {variable.name.removeprefix("COLLALGO_"): variable for variable in VARIABLES}


@pytest.fixture
def alone(monkeypatch):
    """A process without a world, which is left as it was."""
    monkeypatch.setattr(world, "_world", None)
    monkeypatch.setattr(current.of_process, "world", None)
    yield
    if world._world is not None:
        world._world.close()


def test_a_file_that_is_missing_is_told_as_such(monkeypatch):
    monkeypatch.setenv("COLLALGO_TOPOLOGY", "nonexist.yaml")
    with pytest.raises(VariableError) as caught:
        environment.TOPOLOGY.value()
    told = "COLLALGO_TOPOLOGY names a file that does not exist: nonexist.yaml"
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]]
)
def test_a_wrong_value_is_told_with_its_variable_as_the_world_begins(
    name, value, monkeypatch
):
    variable = BY_NAME[name]
    assert variable.value({}) is None
    assert variable.value({variable.name: ""}) is None
    if not value:
        return
    monkeypatch.setenv(variable.name, value)
    shown = "characters" if name == "SECRET" else value
    with pytest.raises(VariableError, match=re.escape(variable.name)) as caught:
        collalgo.init()
    assert shown in str(caught.value)
    assert value not in str(caught.value) or name != "SECRET"


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_value_is_parsed(name):
    text, value = RIGHT[name]
    assert BY_NAME[name].value({BY_NAME[name].name: text}) == value


def test_the_algorithm_of_a_variable_that_does_not_exist_is_told_with_it(monkeypatch):
    monkeypatch.setenv("COLLALGO_ALLREDUCE", "nosuch")
    comm = collalgo.init()
    with pytest.raises(ValueError, match=r"nosuch.*COLLALGO_ALLREDUCE"):
        comm.select("allreduce", 1000)
    comm.close()


@pytest.mark.parametrize("content", ["", "collalgo: rules/2\n", "nodes: 3"])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("RULES", lambda: collalgo.init().select("allreduce", 1000)),
        ("TOPOLOGY", described),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_its_variable(
    name, use, content, monkeypatch, tmp_path
):
    path = tmp_path / "file.yaml"
    path.write_text(content)
    monkeypatch.setenv(f"COLLALGO_{name}", str(path))
    with pytest.raises(ValueError, match=f"COLLALGO_{name}={path} cannot be used"):
        use()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("COLLALGO_TIMEOUTS", "COLLALGO_TIMEOUT"),
        ("COLLALGO_TOPOLGY", "COLLALGO_TOPOLOGY"),
        ("COLLALGO_ALL_REDUCE", "COLLALGO_ALLREDUCE"),
        ("COLLALGO_XQZJW", None),
    ],
)
def test_a_variable_that_is_misspelt_gives_one_warning(name, near, monkeypatch):
    monkeypatch.setenv(name, "1")
    monkeypatch.setattr(environment, "_warned", set())
    advice = f"did you mean {near}" if near else "unset it"
    with pytest.warns(RuntimeWarning, match=rf"{name} is unknown; {advice}"):
        collalgo.init().close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_unknown(COLLECTIVES)


@pytest.mark.parametrize("hosts", [(0,), (0, 0), (0, 1)])
def test_a_topology_without_effect_gives_a_warning(hosts, monkeypatch):
    monkeypatch.setenv("COLLALGO_TOPOLOGY", __file__)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        environment.warn_of_topology(hosts)
    assert ["has no effect" in str(each.message) for each in caught] == [True] * (
        hosts == (0, 0)
    )


def test_no_variable_is_read_that_is_not_in_the_table():
    """Outside of the table, names stand in docstrings and in messages only."""
    for folder in ("collalgo", "bench"):
        for path in (ROOT / folder).rglob("*.py*"):
            if path.suffix not in (".py", ".pyx"):
                continue
            text = path.read_text()
            for name in re.findall(r"COLLALGO_[A-Z_]+[A-Z]", text):
                assert name in NAMES, (path, name)
            if path.name != "environment.py" or path.parent.name != "base":
                assert not re.search(r"[\"']COLLALGO_\w+[\"']", text), path


def rows(page: Path) -> dict[str, list[str]]:
    """The rows of the table of variables of a page, by name."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.read_text().splitlines()
        if line.startswith("| `COLLALGO_")
    ]
    return {cell[0].strip("`"): cell[1:] for cell in cells}


def test_the_documentation_has_the_table():
    found = rows(ROOT / "docs/environment.md")
    of_users = [variable for variable in VARIABLES if not variable.internal]
    expected = [*of_users, algorithm("allreduce")]
    assert list(found) == [variable.name for variable in expected]
    for variable in expected:
        assert found[variable.name] == documented(variable)


def documented(variable: Variable) -> list[str]:
    values = " ".join((variable.parse.__doc__ or "").split()).rstrip(".")
    values = values.replace("``", "`")
    return [variable.summary, values, variable.default]
