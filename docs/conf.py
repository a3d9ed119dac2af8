"""The manual as a site; `scripts/docs` builds it."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.manual.reference import fill  # noqa: E402

project = "radii"
author = copyright = "the authors of radii"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser"]
smartquotes = False
exclude_patterns = ["*.template.md"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "radii"
html_static_path = ["manual.css"]
html_css_files = ["manual.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "article_header_start": [],
}


def setup(app):
    """Fill in the references, which are made from the code, when a page is read."""
    app.connect("source-read", lambda _app, _page, source: source.__setitem__(0, fill(source[0])))
