"""A rendezvous is found by its URL; bad ones are refused."""

import sys
from dataclasses import replace

import pytest

from collalgo import elastic
from collalgo.bootstrap.store import at_url
from collalgo.elastic import backends, launched as launched_jobs
from collalgo.elastic.launched import rendezvous_of_launcher
from collalgo.errors import BootstrapError, EpochLost, RendezvousClosed, RendezvousError
from tests.elastic.conftest import QUICK
from tests.elastic.test_rendezvous import all_join, check_agree
from tests.support.store_clients import DEADLINE, until

pytestmark = pytest.mark.deadline

SECRET = b"of this job"

#: Seconds that the holder of a store waits for the others to leave.
SHORT = replace(QUICK, silence=1.0)


@pytest.fixture(autouse=True)
def _short_attempts(monkeypatch):
    monkeypatch.setattr(at_url, "ATTEMPT_SECONDS", 0.2)


@pytest.fixture
def place(request, reserved_port):
    """A URL of each scheme with a store."""
    if request.param == "etcd":
        return f"etcd://127.0.0.1:{request.getfixturevalue('etcd')}/tests"
    if request.param == "file":
        return f"file://{request.getfixturevalue('tmp_path')}/shared"
    return f"127.0.0.1:{reserved_port}"


@pytest.mark.parametrize("place", ["collalgo", "etcd", "file"], indirect=True)
def test_nodes_that_name_one_url_and_job_meet(place):
    nodes = [elastic.rendezvous(place, "j", SHORT, name, SECRET) for name in "ab"]
    check_agree(all_join(*nodes))
    other = elastic.rendezvous(place, "k", SHORT, "c", SECRET)
    message = "'k' but the job 'j'" if place.startswith("127") else "no place"
    with pytest.raises(RendezvousError, match=f"{message}|1 processes want"):
        other.join(0.3)
    for each in (other, *reversed(nodes)):
        each.shutdown()


def test_the_store_is_held_again_when_its_first_holder_has_ended_before_a_round(
    reserved_port,
):
    place = f"127.0.0.1:{reserved_port}"
    nodes = [elastic.rendezvous(place, "j", SHORT, name, SECRET) for name in "abc"]
    first, stores = nodes.pop(0), [each.store for each in nodes]
    first.shutdown()
    pairs = list(zip(nodes, stores, strict=True))
    until(lambda: all(node.store is not store for node, store in pairs))
    check_agree(all_join(*nodes))
    for each in reversed(nodes):
        each.shutdown()


def test_a_store_that_was_started_anew_ends_the_job_with_the_reason(reserved_port):
    place = f"127.0.0.1:{reserved_port}"
    settings = replace(SHORT, store_timeout=3.0)
    nodes = [elastic.rendezvous(place, "j", settings, name, SECRET) for name in "ab"]
    all_join(*nodes)
    nodes[0].shutdown()
    with pytest.raises(EpochLost, match=r"j at .* was restarted"):
        nodes[1].join(DEADLINE)
    nodes[1].shutdown()


def test_members_may_be_fixed():
    names = ("a", "b", "c")
    nodes = [elastic.rendezvous("static://a,b,c", "j", QUICK, name) for name in names]
    check_agree([each.join() for each in nodes])
    with pytest.raises(RendezvousError, match="members of this job are fixed"):
        nodes[0].join()
    nodes[1].close("done")
    with pytest.raises(RendezvousClosed, match="done"):
        nodes[1].join()


@pytest.mark.parametrize(("url", "message"), [
    ("ftp://a", "ftp:// is not a rendezvous scheme; use collalgo, etcd"),
    ("collalgo://a", "not of the form collalgo://HOST:PORT"),
    ("static://b,c", "'a' must be one of the members"),
    ("static://a,a", "which must differ"),
])  # fmt: skip
def test_a_url_that_names_no_place_is_refused(url, message):
    with pytest.raises(ValueError, match=message):
        elastic.rendezvous(url, "j", QUICK, "a")


@pytest.mark.parametrize("job", ["", "a/b"])
def test_an_id_of_a_job_has_no_slash(job):
    with pytest.raises(ValueError, match="not a job id"):
        elastic.rendezvous("static://a", job, QUICK, "a")


@pytest.mark.parametrize("place", ["a", "a:b", "127.0.0.1:99999", ":1", "u@:1"])
def test_a_place_without_a_possible_port_is_refused(place):
    with pytest.raises(ValueError, match=rf"{place}' is not of the form collalgo://"):
        elastic.rendezvous(place, "j", QUICK, "a", SECRET)


def test_a_store_on_other_hosts_needs_a_secret(monkeypatch):
    monkeypatch.delenv("COLLALGO_SECRET", raising=False)
    with pytest.raises(RendezvousError, match="node a has no secret for job j at"):
        elastic.rendezvous("collalgo://example.org:1", "j", QUICK, "a")
    monkeypatch.setenv("COLLALGO_SECRET", "no digits")
    with pytest.raises(RendezvousError, match="hexadecimal"):
        elastic.rendezvous("collalgo://example.org:1", "j", QUICK, "a")


def test_a_wrong_secret_is_an_error_with_place_and_time(reserved_port):
    place = f"127.0.0.1:{reserved_port}"
    settings = replace(QUICK, store_timeout=0.1)
    holder = elastic.rendezvous(place, "j", settings, "a", SECRET)
    with pytest.raises(
        RendezvousError, match=rf"j at .*{place} has not answered within"
    ):
        elastic.rendezvous(place, "j", settings, "b", b"wrong")
    holder.shutdown()


@pytest.fixture
def launched(tmp_path):
    """Meet in a folder, as a member that a launcher has started."""
    made = []

    def start(name, silence=""):
        given = {
            "COLLALGO_RENDEZVOUS": f"file://{tmp_path}",
            "COLLALGO_MEMBERS": "1:2",
            "COLLALGO_MEMBER": name,
            "COLLALGO_JOB": "j",
            "COLLALGO_SILENCE": silence,
        }
        made.append(rendezvous_of_launcher(given))
        return made[-1]

    yield start
    for each in made:
        each.shutdown()


def test_the_user_says_after_which_silence_a_member_is_lost(launched):
    assert 2.5 < launched("a").remaining() <= 5
    assert 0 < launched("b", "2.5").remaining() <= 2.5


def runs(script, monkeypatch):
    """Let this process be one that runs a script; a worker of tests has none."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", str(script), raising=False)


def test_a_member_with_another_script_is_refused(launched, tmp_path, monkeypatch):
    monkeypatch.setattr(launched_jobs, "LAST_CALL", 0.1)
    scripts = [tmp_path / "train.py", tmp_path / "new" / "train.py"]
    scripts[1].parent.mkdir()
    for name, script in zip("ab", scripts, strict=True):
        script.write_text(f"#!/usr/bin/python\n# the code of {name}")
        runs(script, monkeypatch)
        if name == "a":
            launched(name).join()
    words = r"b .* has script 'train.py .*' but the job 'train.py .*'; start all nodes"
    with pytest.raises(RendezvousError, match=words):
        launched("b").join()


def test_the_path_of_python_in_a_script_is_not_compared(
    launched, tmp_path, monkeypatch
):
    script, members = tmp_path / "train.py", []
    monkeypatch.setattr(launched_jobs, "LAST_CALL", 0.1)
    runs(script, monkeypatch)
    for name in "ab":
        script.write_text(f"#!/{name}/python\nx = 1\n")
        members.append(launched(name))
    assert all_join(*members)[0].size == 2


def test_who_looks_at_a_job_makes_no_folder(tmp_path):
    with pytest.raises(BootstrapError, match="no job 'j' uses file://"):
        backends.store_at(f"file://{tmp_path}/other", "j")
    assert not list(tmp_path.iterdir())


def test_an_invalid_silence_is_named(launched):
    with pytest.raises(BootstrapError, match="COLLALGO_SILENCE"):
        launched("a", "-1")
