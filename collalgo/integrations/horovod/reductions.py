"""The reductions of Horovod as ops of the library."""

Average, Sum, Min, Max, Product, Adasum = "avg", "sum", "min", "max", "prod", "adasum"


def op_of(op: str | None, average: bool | None) -> str:
    """The op of a call, from its arguments ``op`` and, of older scripts, ``average``.

    Raises
    ------
    ValueError
        If both are given.
    NotImplementedError
        If it is Adasum.
    """
    if average is not None and op is not None:
        raise ValueError("pass op or average, not both; average is deprecated")
    if op == Adasum:
        raise NotImplementedError("hvd.Adasum is not supported; use hvd.Average")
    if op is None:
        return Sum if average is False else Average
    return op
