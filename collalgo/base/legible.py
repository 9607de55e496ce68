"""Messages that quote untrusted files: short, without control characters."""

import re

#: The most characters of a word, and of a message.
LONGEST_WORD, LONGEST = 80, 1000


def escaped(text: str) -> str:
    r"""A text whose control and bidirectional characters are written as escapes.

    Ends of lines and tabs remain.

    >>> escaped("a\u202eb") == "a\\u202eb"
    True
    """
    if text.isprintable():
        return text
    return "".join(map(_escaped_letter, text))


def _escaped_letter(letter: str) -> str:
    return letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]


def legible(text: str) -> str:
    """One line of bounded length: long words are cut, control characters escaped.

    >>> found = legible(f"the name {100_000 * 'x'} is too long")
    >>> found == f"the name {LONGEST_WORD * 'x'}... is too long"
    True
    """
    if len(text) <= LONGEST_WORD and text.isprintable():
        return text
    text = re.sub(rf"(\S{{{LONGEST_WORD}}})\S+", r"\1...", " ".join(text.split()))
    return escaped(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")
