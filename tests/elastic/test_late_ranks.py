"""Ranks that come after the end of their job."""

from threading import Event

import pytest

from collalgo import elastic
from collalgo.elastic import State, running
from collalgo.errors import RendezvousClosed

pytestmark = pytest.mark.deadline


def test_who_comes_after_the_end_is_told(meet):
    rendezvous = meet("n0")
    train = elastic.run(lambda comm, state: comm.size)
    assert train(State(), comm=elastic.connect(rendezvous)) == 1
    with pytest.raises(RendezvousClosed, match="it has ended normally"):
        elastic.connect(meet("n1"))


@pytest.mark.parametrize("restarts", ["", "0", "1", "3"])
def test_a_rank_that_comes_after_the_end_says_it_in_a_line(
    meet, monkeypatch, caplog, restarts
):
    rendezvous = meet("late", 1)
    rendezvous.close("it has ended normally")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restarts)
    monkeypatch.setattr(
        "collalgo.elastic.running.rendezvous_of_launcher", lambda: rendezvous
    )
    with pytest.raises(SystemExit) as caught:
        elastic.run(lambda comm, state: None)(State(step=0))
    assert caught.value.code == 0
    (line,) = caplog.messages
    if restarts in ("1", "3"):
        assert line == "the job ended before this restarted rank could join"
    else:
        assert "which is closed (it has ended normally); start another job" in line


def test_an_excluded_rank_says_it_in_a_line(meet, monkeypatch, caplog):
    rendezvous = meet("n0", 1)
    monkeypatch.setattr(running, "rendezvous_of_launcher", lambda: rendezvous)
    monkeypatch.setattr(running, "_IS_MEMBER", Event())

    @elastic.run
    def train(comm, state):
        rendezvous.exclude("n0", "its fan is broken")
        while True:
            state.commit()

    with pytest.raises(SystemExit) as caught:
        train(State(step=0))
    assert caught.value.code == 1
    assert caplog.messages[-1] == "n0 is excluded (its fan is broken); it ends"
