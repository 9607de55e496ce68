"""Pages: one file each, which loads nothing, whatever names are in it."""

import json
import re

import pytest

from collalgo import OutputError
from collalgo.base import chart, page
from collalgo.base.page import Cell

HOSTILE = '</script><script>alert("1")</script><img src=http://evil/x>&\u2028'


def a_page():
    rows = [[Cell(HOSTILE, is_text=True), Cell("1 KiB", 1024.0)]]
    lines = [chart.Line(HOSTILE, [(8, 1.0, HOSTILE), (16, 2.0, "")])]
    parts = [
        page.lines([HOSTILE]),
        page.facts({HOSTILE: HOSTILE}),
        *page.table("rows", ("name", "size"), rows),
        chart.legend([HOSTILE]),
        chart.chart(HOSTILE, ("bytes", "us"), lines),
    ]
    return page.page(HOSTILE, parts, scripts=["// own"], data={"name": HOSTILE})


def test_names_are_text_and_the_page_loads_nothing():
    text = a_page()
    assert text.count("<script>") == text.count("</script>") == 1
    assert "<img" not in text
    assert "default-src &#x27;none&#x27;" in text
    assert not re.findall(r"(?:src|href)=", text.replace("src=http://evil", ""))
    data = re.search(r"const pageData = (.*);", text)[1]
    assert json.loads(data) == {"name": HOSTILE}
    assert not set("<>&\u2028") & set(data)


def test_a_page_is_recognised_when_it_is_written_again(tmp_path):
    path = tmp_path / "page.html"
    page.write(path, a_page())
    page.write(path, a_page())
    path.write_text(path.read_text() + "mine")
    with pytest.raises(OutputError, match="was changed since collalgo wrote it"):
        page.write(path, a_page())
    page.write(path, a_page(), force=True)


def test_a_page_in_a_notebook_is_a_frame_that_runs_its_own_scripts_only():
    frame = page.frame(a_page(), 100)
    assert frame.count("<") == 2  # the frame itself and its end
    assert 'sandbox="allow-scripts"' in frame


def test_values_that_have_no_place_on_a_logarithmic_axis_are_left_out():
    points = [(0, 1.0, "no size"), (8, 0.0, "no time"), (8, 1.0, "a"), (64, 1.0, "b")]
    drawn = chart.chart("x", ("bytes", "us"), [chart.Line("one", points)])
    assert re.findall("<title>(.*?)</title>", drawn) == ["one: a", "one: b"]
    assert "no values to draw" in chart.chart("x", ("bytes", "us"), [])


def test_many_lines_differ_in_colour_or_dashes():
    styles = {chart.style_of(i) for i in range(4 * chart.COLOURS)}
    assert len(styles) == 4 * chart.COLOURS
