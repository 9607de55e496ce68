"""How messages name a call, and what the ranks compare of it."""

#: The fields of a call that must be equal on all ranks.
COMPARED = ("collective", "count", "dtype", "op", "root", "algorithm")


def call_text(
    collective: str, number: int, count: int, dtype: str, op: str | None, algorithm: str
) -> str:
    """A call in words.

    >>> call_text("allreduce", 3, 1024, "float32", "sum", "ring")
    'allreduce #3 (1024 float32, sum, ring)'
    """
    details = [] if collective == "barrier" else [f"{count} {dtype}"]
    details += [op] if op else []
    return f"{collective} #{number} ({', '.join([*details, algorithm])})"
