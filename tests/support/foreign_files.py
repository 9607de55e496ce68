"""Files of other programs, which no command may write over."""

from collalgo.base.output_files import Format

KIND = Format("a note")


THESIS = b"years of work"


def names(folder):
    return sorted(path.name for path in folder.iterdir())
