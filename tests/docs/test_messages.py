"""The messages of errors: all are listed, and none has what no message may have."""

import ast
import re

import pytest

from docs.messages import ENDS, ROOT, Message, messages, messages_of

#: What no message may have, and what to write instead.
FAULTS = {
    r"[a-z][.!]$": "no full stop at the end",
    r"(?i)^(error|warning|sorry|please|oops|could not|unable|failed)\b": (
        "the subject first: who, what, and what to do"
    ),
    r" [,;:] (?!\()": "no space before a comma",
    r"(?i)\b(illegal|something|went wrong)\b": "the value and what is allowed",
}


@pytest.fixture(scope="module")
def found() -> list[Message]:
    return list(messages())


def makes_error(node):
    """Whether a statement raises an error, or returns one."""
    match node:
        case ast.Raise(exc=ast.Call()):
            return True
        case ast.Return(value=ast.Call(func=name)):
            return ast.unparse(name).endswith(ENDS)
    return False


@pytest.mark.parametrize("folder", ["collalgo", "bench"])
def test_every_statement_that_raises_or_returns_an_error_is_listed(found, folder):
    """Python's own parser finds the same statements."""
    places = {message.place for message in found}
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if makes_error(node):
                assert f"{name}:{node.lineno}" in places


def test_errors_of_compiled_modules_are_listed(found):
    texts = {message.text for message in found if ".pyx:" in message.place}
    assert "{name}: {reason}; call it as {name}{shown}" in texts  # a returned one
    assert len(texts) > 30


def test_messages_have_no_faults(found):
    assert sum(bool(message.text) for message in found) > 900
    for fault, instead in FAULTS.items():
        wrong = [message for message in found if re.search(fault, message.text)]
        assert not wrong, f"{wrong}: {instead}"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (' raise ValueError("a", f"b{c!r}")', "a b{c!r}"),
        (' raise E(\n  "(a" # "x"\n  \'b"\'\n ) or "c"', '(ab"'),
        (' raise wrong_type("f", "x", y, "a list")', "f x a list"),
    ],
)
def test_the_text_is_that_of_the_strings(source, text):
    assert [each[2] for each in messages_of(source)] == [text]
