"""Draw the layers of the package, in the order of the contracts in pyproject.toml.

``make docs`` writes ``docs/pictures/layers.svg``.
"""

import ast
from html import escape
from pathlib import Path

import tomllib

from docs.pages import write_page

ROOT = Path(__file__).parents[1]
PICTURE = Path(__file__).with_name("pictures") / "layers.svg"

#: Pixels: the width of a box, its height, and the gap below it.
WIDTH, HEIGHT, GAP = 860, 42, 8


def layers() -> list[str]:
    """The layers, top first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    order: list[str] = contracts[0]["layers"]
    return [name for name in order if name != "__main__"]


def purpose(layer: str) -> str:
    """The first sentence of a layer's docstring."""
    text = (ROOT / "collalgo" / layer / "__init__.py").read_text()
    doc = ast.get_docstring(ast.parse(text)) or ""
    return doc.partition("\n")[0]


def picture() -> str:
    """All layers as SVG; each imports only what is below it."""
    names = layers()
    height = len(names) * (HEIGHT + GAP) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 2 * GAP}"',
        f'     height="{height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, name in enumerate(names):
        lines += _box(GAP + number * (HEIGHT + GAP), name, purpose(name))
    return "\n".join([*lines, "</svg>", ""])


def _box(top: int, name: str, text: str) -> list[str]:
    """A layer: its name, and what it is for."""
    middle = top + HEIGHT // 2 + 5
    return [
        f'<rect x="{GAP}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="4"',
        '      fill="#eef3f8" stroke="#55708c"/>',
        f'<text x="{GAP + 14}" y="{middle}" font-size="16" font-weight="bold">',
        f"{escape(name)}</text>",
        f'<text x="{GAP + 140}" y="{middle}" font-size="13">{escape(text)}</text>',
    ]


def write() -> None:
    """Write the picture."""
    write_page(PICTURE, picture())
