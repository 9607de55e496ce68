"""Parse and format sizes and times with units."""

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def parse_size(_context: object, _parameter: object, text: str) -> int:
    """Parse the size of an option to bytes: ``8``, ``4K``, ``64M`` or ``1G``."""
    import click

    try:
        text = text.strip()
        if text[-1:].upper() in UNITS:
            return int(text[:-1]) * UNITS[text[-1].upper()]
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no size; write 8, 4K or 64M") from None


def human(nbytes: float) -> str:
    """A size in bytes, with a binary unit."""
    for unit, width in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= width:
            return f"{nbytes / width:.4g} {unit}"
    return f"{nbytes:.4g} B"


def human_time(seconds: float) -> str:
    """A time in seconds, with a unit.

    >>> human_time(0.0859), human_time(3.2e-6)
    ('85.9 ms', '3.2 us')
    """
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def sizes_between(text: str, factor: int = 4) -> list[int]:
    """The sizes of a range ``1K..1G``, each ``factor`` times the previous one.

    >>> sizes_between("1K..16K"), sizes_between("64")
    ([1024, 4096, 16384], [64])
    """
    first, dots, last = text.partition("..")
    low = parse_size(None, None, first)
    high = parse_size(None, None, last) if dots else low
    sizes = [low]
    while 0 < sizes[-1] * factor <= high:
        sizes.append(sizes[-1] * factor)
    return sizes
