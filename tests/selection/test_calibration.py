"""The figures of the machine are measured once, and kept if it was not busy."""

import json
from itertools import chain, cycle, repeat
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from collalgo.cli.main import main
from collalgo.cost import host_profile as machine_module
from collalgo.cost.host_profile import (
    ATTEMPTS,
    STABLE,
    USUAL,
    HostProfile,
    calibrate,
    host_profile,
    kept_spread,
    known_profile,
    profile_file,
)
from collalgo.cost.host_trial import Trial, measure, spread

pytestmark = pytest.mark.deadline


def test_the_machine_is_measured_once():
    known_profile.cache_clear()  # a process may have measured anew since
    first = host_profile()
    known_profile.cache_clear()
    assert host_profile() == first
    assert first.cores >= 1
    assert all(value >= 0 for value in first.settings())
    assert HostProfile.of_settings([*first.settings(), 0.0]) == first


def undisturbed():
    """A measurement as of a machine that does nothing else."""
    latency, switch, _, copy, reduce = (usual for usual, _ in USUAL.values())
    times = {"latency": latency, "tokens": 2 * latency, "switch": switch}
    return measure()._replace(**times, copy=copy, reduce=reduce)


@pytest.fixture
def _unmeasured(monkeypatch, tmp_path):
    """A machine that no process has measured, nor another rank for this one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine_module, "_agreed", [])
    known_profile.cache_clear()
    yield
    known_profile.cache_clear()


@pytest.fixture
def _not_busy(_unmeasured, monkeypatch):
    """Whatever else runs, this machine can be measured."""
    monkeypatch.setattr(machine_module, "measure", undisturbed)


@pytest.mark.usefixtures("_unmeasured")
def test_a_rank_of_a_host_without_a_file_takes_the_profile_of_another(monkeypatch):
    """A host that is too busy to be measured has none."""
    known = HostProfile(1e-6, 2e-6, 1e-7, 1e-10, 1e-10, cores=3)
    monkeypatch.setattr(machine_module, "measure", Mock(side_effect=AssertionError))
    machine_module.agree_on_profile(known)
    assert host_profile() == known


@pytest.mark.usefixtures("_not_busy")
def test_a_damaged_file_of_figures_is_measured_anew(tmp_path):
    host_profile()
    (path,) = (tmp_path / "collalgo").iterdir()
    path.write_text('{"latency": 1')
    known_profile.cache_clear()
    assert host_profile().latency > 0
    path.chmod(0o600)


@pytest.mark.usefixtures("_not_busy")
def test_calibration_is_kept_and_told():
    machine = calibrate(trials=3)
    assert host_profile() == machine
    kept = json.loads(profile_file().read_text())
    assert kept["trials"] >= 3  # more on a busy machine
    assert HostProfile(**kept["machine"]) == machine
    result = CliRunner().invoke(main, ["calibrate", "--show"])
    assert result.exit_code == 0, result.output
    assert "core-to-core handoff" in result.output
    assert str(profile_file()) in "".join(result.output.split())


@pytest.mark.usefixtures("_unmeasured")
def test_figures_of_a_busy_machine_are_the_usual_ones_and_are_not_kept(monkeypatch):
    busy = undisturbed()._replace(switch=0.7e-3)
    monkeypatch.setattr(machine_module, "measure", lambda: busy)
    machine = host_profile()
    assert machine.switch == USUAL["switch"][0]
    assert (machine.exchange, machine.fetch) == (0.0, 0.0)
    assert not profile_file().exists()
    result = CliRunner().invoke(main, ["calibrate", "--quick"])
    assert "too busy to be measured" in " ".join(result.output.split())
    found = chain([busy], repeat(busy._replace(switch=1e-6)))
    monkeypatch.setattr(machine_module, "measure", lambda: next(found))
    assert calibrate(trials=1).switch == 1e-6
    assert profile_file().exists()


def test_measuring_gives_plausible_figures():
    machine = measure()
    assert 1e-9 < machine.latency < 1e-2
    assert 1e-12 < machine.copy < 1e-7
    assert 1e-12 < machine.reduce < 1e-7


def test_processes_that_disturb_some_measurements_do_not_change_the_figures():
    quiet = Trial(3e-7, 6e-7, 2e-6, 1e-10, 1e-10, 2e-10, 2e-10)
    slow = Trial(*(8 * each for each in quiet))
    trials = [slow, quiet, slow, quiet._replace(tokens=slow.tokens), quiet]
    assert Trial.best(trials) == quiet
    assert quiet.figures()["message"] == pytest.approx(3e-7 / 8)


def test_the_spread_is_the_difference_of_two_halves():
    quiet = Trial(3e-7, 6e-7, 2e-6, 1e-10, 1e-10, 2e-10, 2e-10)
    assert set(spread([quiet]).values()) == set(spread([quiet] * 7).values()) == {0.0}
    other = quiet._replace(switch=2.5e-6)
    assert spread([quiet, other] * 8) == spread([other, quiet] * 8)
    assert spread([quiet, other] * 8)["switch"] == pytest.approx(0.25)
    # A trial that was disturbed is in neither best eighth.
    assert spread([quiet] * 15 + [other])["switch"] == 0


@pytest.mark.usefixtures("_unmeasured")
@pytest.mark.parametrize("apart", [STABLE / 2, 2 * STABLE])
def test_unstable_values_are_measured_longer_and_named(monkeypatch, apart):
    first = undisturbed()
    other = first._replace(switch=first.switch * (1 + apart))
    found = cycle([first, other])
    monkeypatch.setattr(machine_module, "measure", lambda: next(found))
    calibrate(trials=2)
    times = ATTEMPTS if apart > STABLE else 1
    assert json.loads(profile_file().read_text())["trials"] == 2 * times
    assert kept_spread()["switch"] == pytest.approx(apart)
    result = CliRunner().invoke(main, ["calibrate", "--show"])
    (line,) = [each for each in result.output.splitlines() if "ranks of one" in each]
    assert line.endswith(f"within {apart:.0%}")
