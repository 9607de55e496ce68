"""What pages that are made from the code have in common."""

from collalgo.base.output_files import Format

PAGE = Format("a page of make docs", lambda data: b"Made by `make docs`" in data)
