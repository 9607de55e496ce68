"""The best of all algorithms becomes a rule, and regret is told."""

from click.testing import CliRunner
from collalgo.bench.choices import regrets
from collalgo.bench.records import AS_ASKED
from collalgo.bench.tuning import gained, nearness, rules_of, text_of

from collalgo import select
from collalgo.cli.main import main as whole
from collalgo.selection.rules import Rules
from tests.support.bench_results import cell_of


def test_half_of_the_cycles_say_who_is_best_and_the_others_how_good():
    found = regrets(
        [
            cell_of("lucky", [1.0, 3.0, 1.0, 3.0]),
            cell_of("steady", [2.0, 2.0, 2.0, 2.0], reason="cheapest"),
        ]
    )
    assert list(found.values()) == [2 / 3]
    once = regrets([cell_of("a", [1.0]), cell_of("b", [1.5], reason="cheapest")])
    assert list(once.values()) == [1.5]


def test_rules_keep_what_is_about_as_good():
    rows = [
        cell_of("a", [1.00], "cheapest", 8, "scan"),
        cell_of("b", [0.98], AS_ASKED, 8, "scan"),
        cell_of("a", [3.0], "cheapest", 512, "scan"),
        cell_of("b", [2.0], AS_ASKED, 512, "scan"),
        cell_of("a", [4.0], "cheapest", 2048, "scan"),
        cell_of("b", [4.1], AS_ASKED, 2048, "scan"),
    ]
    table = rules_of(rows)
    assert table == {"scan": [{"ranks": 4, "sizes": {0: "a", 64: "b", 1024: "a"}}]}
    text = text_of(
        {"scan": [{"ranks": 4, "sizes": {0: "linear", 64: "pipelined"}}]}, "x"
    )
    rules = Rules.of_text(text, "x")
    assert [rules.choose("scan", 4, n) for n in (8, 64)] == ["linear", "pipelined"]


def test_tuning_writes_rules_that_are_followed(tmp_path, monkeypatch):
    path = tmp_path / "rules.yaml"
    words = ["tune", str(path), "-n", "2", "-b", "8", "-e", "8", "--calls", "3"]
    done = CliRunner().invoke(whole, words)
    assert done.exit_code == 0, done.output
    assert f"COLLALGO_RULES={path}" in "".join(done.output.split("\n"))
    monkeypatch.setenv("COLLALGO_RULES", str(path))
    chosen = select("allreduce", 8, size=2)
    assert chosen.decider == f"the file {path}"
    assert Rules.read(path).choose("allreduce", 2, 8) == chosen.algorithm
    assert select("allreduce", 8, size=3).decider == "price"


def test_tuning_says_what_it_gained():
    slow = cell_of("ring", [4.0], "the only one")
    fast = cell_of("bine", [2.0])
    rows = [slow, fast]
    rules = {"barrier": [{"ranks": slow.ranks, "sizes": {0: "bine"}}]}
    assert "another algorithm in 1 of 1 cells, 2.00 times" in gained(rows, rules)
    assert nearness(rows) == (
        "the selection is within 5 % of the best in 0% of 1 cells; worst 2.00 "
        "(barrier, 0 B, 4 ranks)"
    )
    same = {"barrier": [{"ranks": slow.ranks, "sizes": {0: "ring"}}]}
    assert gained(rows, same) == "the rules keep the selection in all 1 cells"
