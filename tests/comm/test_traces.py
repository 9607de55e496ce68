"""A trace has the calls and messages of all ranks, and a summary."""

import json
import math
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import collalgo
from collalgo.base.chrome_trace import TRACE
from collalgo.cli.main import main
from collalgo.comm.tracing.summary import summary
from collalgo.comm.tracing.trace_file import Span
from collalgo.comm.tracing.view import Trace, levels_of
from tests.support.browser import reports

HERE = Path(__file__).name


def traced(comm, path):
    with collalgo.trace(path, comm):
        comm.allreduce(np.ones(1000), algorithm="ring")
        works = [comm.allreduce_async(np.ones(3), algorithm="ring") for _ in range(5)]
        for work in works:
            work.wait()
        comm.broadcast(np.ones(10), root=2, algorithm="binomial")
    comm.allreduce(np.ones(1000))  # which is not traced


def tracks_of(path):
    """The events of a trace by phase and track."""
    found = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        found.setdefault((event["ph"], event["tid"]), []).append(event)
    return found


def check_steps_are_within_calls(spans):
    calls = [span for span in spans if not span["name"].startswith("step")]
    assert [call["name"] for call in calls] == [
        *["allreduce (ring)"] * 6, "broadcast (binomial)"
    ]  # fmt: skip
    steps = [span for span in spans if span["name"].startswith("step")]
    assert len([s for s in steps if s["name"] == "step 0"]) >= 6
    for step in steps:
        assert any(
            call["ts"] - 2 <= step["ts"]
            and step["ts"] + step["dur"] <= call["ts"] + call["dur"] + 2
            for call in calls
        )


def is_whole(tracks, size):
    """Calls are in order, steps within calls, and every arrow has both ends."""
    for rank in range(size):
        check_steps_are_within_calls(tracks["X", rank])
    sent = {e["id"]: e for rank in range(size) for e in tracks.get(("s", rank), [])}
    taken = {e["id"]: e for rank in range(size) for e in tracks.get(("f", rank), [])}
    assert sent.keys() == taken.keys()
    assert len(sent) == 6 * 2 * size * (size - 1) + size - 1
    for number, event in sent.items():
        assert event["ts"] <= taken[number]["ts"] + 2
    routes = {(sent[i]["tid"], taken[i]["tid"]) for i in sent}
    assert {(rank, (rank + 1) % size) for rank in range(size)} <= routes


def test_a_trace_has_a_track_for_each_rank_and_an_arrow_for_each_message(tmp_path):
    from functools import partial

    for run, name in ((collalgo.threads, "threads"), (collalgo.spawn, "spawn")):
        path = tmp_path / f"{name}.json"
        run(partial(traced, path=path), 3, timeout=60)
        is_whole(tracks_of(path), 3)


def test_a_communicator_with_many_calls_is_traced_from_its_next_one_on(tmp_path):
    """More calls than the recorder keeps outside of a trace."""

    def on_each_rank(comm):
        for _ in range(1100):
            comm.barrier()
        with collalgo.trace(tmp_path / "t.json", comm):
            comm.allreduce(np.ones(3))

    collalgo.threads(on_each_rank, 1)
    names = [event["name"] for event in tracks_of(tmp_path / "t.json")["X", 0]]
    assert sum("allreduce" in name for name in names) == 1
    assert not any("barrier" in name for name in names)


@pytest.mark.deadline
def test_what_fails_in_a_trace_is_raised(tmp_path):
    def on_each_rank(comm):
        with pytest.raises(KeyError), collalgo.trace(tmp_path / "t.json", comm):
            comm.barrier()
            raise KeyError
        comm.barrier()
        assert not (tmp_path / "t.json").exists()

    collalgo.threads(on_each_rank, 2, timeout=60)


def traced_with_a_late_rank(comm, path):
    with collalgo.trace(path, comm):
        for _ in range(3):
            if comm.rank == 1:
                time.sleep(0.1)
            comm.allreduce(np.ones(1000))


@pytest.mark.deadline
def test_a_summary_splits_waiting_from_transfer_and_names_the_last(tmp_path):
    path = tmp_path / "t.json"
    collalgo.threads(lambda comm: traced_with_a_late_rank(comm, path), 3)
    (row,) = summary(path)
    assert (row.calls, row.elements, row.last) == (3, 1000, "1 (3 of 3)")
    assert HERE in row.place
    assert row.seconds >= row.waiting >= 0.1
    shown = CliRunner().invoke(main, ["trace", "summary", str(path)]).output
    assert "waiting" in shown
    assert "transfer" in shown


GOOD = {
    "ph": "X", "ts": 1.0, "dur": 2.0, "tid": 0,
    "args": {"collective": "barrier", "algorithm": "x", "sequence": 1, "count": 0},
}  # fmt: skip


def trace_of(events):
    return json.dumps({"otherData": {"maker": TRACE.mark}, "traceEvents": events})


@pytest.mark.deadline
@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "{}", '{"otherData": 3}', "[" * 100_000,
     json.dumps({"otherData": {"maker": "another"}, "traceEvents": []}),
     trace_of(3), trace_of([3]), trace_of([{}]), trace_of([{**GOOD, "args": 1}]),
     *(trace_of([{**GOOD, key: value}]) for key in ("ts", "dur", "tid")
       for value in ("x", None, [])),
     *(trace_of([{**GOOD, "args": {**GOOD["args"], key: value}}])
       for key in ("sequence", "count") for value in ("x", None, [], 1e999))],
)  # fmt: skip
def test_a_summary_of_no_trace_is_refused(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_text(text)
    found = CliRunner().invoke(main, ["trace", "summary", str(path)])
    assert found.exit_code == 1
    assert f"Error: {path} is not a trace of collalgo" in found.output


VIEW = """
  const canvas = document.querySelector("canvas.timeline");
  const press = key => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const shown = () => document.getElementById("detail").innerText.replace(/\\s+/g, " ");
  report("first", shown());
  press("n"); report("selected", shown());
  press("ArrowDown"); report("other", shown());
  for (const key of ["Enter", "-", "+", "ArrowLeft", "ArrowRight", "0"]) press(key);
  press("n"); report("next", shown());
  press("Escape"); report("none", shown());
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  report("colours", new Set(new Uint32Array(data.buffer)).size > 4);
  report("rows", document.querySelectorAll("#calls tbody tr").length);
"""


def test_a_page_of_a_trace_has_a_timeline_with_keys(tmp_path):
    path, page = tmp_path / "trace.json", tmp_path / "trace.html"
    collalgo.threads(partial(traced, path=path), 3)
    done = CliRunner().invoke(main, ["trace", "view", str(path)])
    assert (done.exit_code, done.output) == (0, f"{page}\n")
    found = reports(page.read_text(), VIEW, tmp_path)
    assert found.pop("first") == "Select a span to see what it is."
    assert found.pop("selected").startswith("rank 0 allreduce (ring) begins at")
    assert found.pop("other").startswith("rank 1 allreduce (ring) begins at")
    assert found.pop("next").startswith("rank 1 step 0 begins at")
    assert found == {"none": "", "colours": "true", "rows": "3"}


def test_a_trace_is_a_timeline_in_notebooks_or_text_with_the_reason(
    tmp_path, monkeypatch
):
    path = tmp_path / "trace.json"
    found = Trace(path)
    assert "written at the end of its block" in found._repr_html_()
    collalgo.threads(partial(traced, path=path), 3)
    assert repr(found) == f"<Trace {path}: 21 calls on 3 ranks>"
    assert found._repr_html_().startswith("<iframe")
    assert found.summary() == summary(path)
    monkeypatch.setattr("collalgo.comm.tracing.view.MOST_IN_NOTEBOOKS", 10)
    assert "use collalgo trace view" in found._repr_html_()


def test_a_refused_trace_is_its_reason_in_notebooks(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("{}")
    found = Trace(path)
    assert repr(found) == f"<Trace {path}, refused>"
    assert "is not a trace of collalgo" in found._repr_html_()


def test_odd_values_of_a_trace_do_not_break_its_page(tmp_path):
    path = tmp_path / "t.json"
    name = "</script>" * 100
    about = {**GOOD["args"], "odd": math.nan, "list": [1], "place": name}
    lost = {"ph": "f", "id": 1, "tid": 7, "ts": 1.0}
    path.write_text(trace_of([{**GOOD, "name": name, "args": about}, lost]))
    text = Trace(path).page()
    assert text.count("</script>") == 1
    assert "NaN" not in text[text.index("pageData") : text.index("// Tables")]
    assert len(text) < 60_000


def test_spans_that_overlap_are_on_rows_of_their_own():
    spans = [Span(0, *times, "x", {}) for times in ((0, 9), (1, 4), (2, 6), (4, 5))]
    assert [level for level, _ in levels_of(spans)] == [0, 1, 2, 1]
