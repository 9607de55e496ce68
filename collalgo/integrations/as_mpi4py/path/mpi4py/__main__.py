"""Run a script, ``-m`` a module or ``-c`` a program, as ``python -m mpi4py`` does.

A rank that ends by an uncaught error, or with a status that is not 0, ends the job.
"""

import runpy
import sys

from collalgo.integrations.as_mpi4py import exits


def main() -> None:
    """Run what the arguments name."""
    words = sys.argv[1:]
    if not words:
        sys.exit("python -m mpi4py: pass a script, -m MODULE or -c PROGRAM")
    first, *rest = words
    if first in ("-m", "-c") and not rest:
        sys.exit(f"python -m mpi4py: {first} needs an argument")
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    try:
        main()
    except SystemExit as error:
        exits.note(error.code)
        raise
