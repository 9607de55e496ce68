"""Names of calls that an integration makes, such as a bucket of gradients."""

from weakref import WeakKeyDictionary

from collalgo._kernels.comm.recorder import Recorder

_names: "WeakKeyDictionary[Recorder, dict[int, str]]" = WeakKeyDictionary()


def name_calls(recorder: Recorder, numbers: range, name: str) -> None:
    """Name some calls, for as long as the recorder keeps them."""
    known = _names.setdefault(recorder, {})
    for number in numbers:
        known[number] = name
    if len(known) > 2 * recorder.capacity:
        for number in list(known)[: -recorder.capacity]:
            del known[number]


def name_of(recorder: Recorder, number: int) -> str:
    """The name of a call, or ""."""
    return _names.get(recorder, {}).get(number, "")
