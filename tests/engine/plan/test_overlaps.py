"""Spans that overlap others are found."""

from hypothesis import given, strategies as st

from collalgo.engine.plan.layout import Numbered, Span

spans = st.tuples(st.integers(0, 20), st.integers(0, 6)).map(
    lambda one: Span(one[0], one[0] + one[1])
)


@given(st.lists(spans, max_size=12), spans)
def test_spans_that_overlap_are_found(known, wanted):
    found = Numbered((span, number) for number, span in enumerate(known))
    expected = [
        number
        for number, span in enumerate(known)
        if span.start < wanted.stop and wanted.start < span.stop
    ]
    assert sorted(found.overlapping(wanted)) == expected
