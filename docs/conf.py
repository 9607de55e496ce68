"""The documentation site: ``make site`` builds it into build/site."""

import re

from sphinx.application import Sphinx

from collalgo._version import __version__

project = "collalgo"
author = "the authors of collalgo"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
]
root_doc = "site"
exclude_patterns = ["index.md"]  # the same pages, for readers of the repository

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signatures have them
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = True
napoleon_use_rtype = False
napoleon_use_ivar = True

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "collalgo"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False

#: A link from a page to a file of the repository outside this folder.
OUTSIDE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+)([^)\s]+)\)")

#: The files outside this folder that are pages of the site.
PAGES = {
    "CONTRIBUTING.md": "explanation/contributing.md",
    "SECURITY.md": "explanation/security.md",
}


def link_pages(_app: Sphinx, page: str, source: list[str]) -> None:
    """Link files that are pages of the site, and name those that are not."""
    depth = page.count("/")

    def linked(found: re.Match[str]) -> str:
        text, up, path = found.groups()
        if up.count("../") <= depth:
            return found[0]
        if path in PAGES:
            return f"[{text}]({'../' * depth}{PAGES[path]})"
        return text if path.startswith(text.strip("`")) else f"{text} (`{path}`)"

    source[0] = OUTSIDE.sub(linked, source[0])


def setup(app: Sphinx) -> None:
    """Register the handlers of this site."""
    app.connect("source-read", link_pages)
