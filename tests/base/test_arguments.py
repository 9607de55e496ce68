"""Values of users in messages of errors."""

import pytest

from collalgo.base.arguments import shown, wrong_type

#: An integer of more digits than Python converts to text.
LONG = 10**5000


@pytest.mark.parametrize(
    "value",
    [LONG, -LONG, [LONG], (1, [LONG]), {LONG: 1}, {LONG}],
    ids=lambda value: type(value).__name__,
)
def test_integers_of_any_length_are_shown_in_a_short_line(value):
    text = shown(value)
    assert type(value).__name__[:3] in text or "<int instance" in text  # of 3.14
    assert len(text) < 80
    assert text in str(wrong_type("send", "tag", value, "an integer"))
