"""The reference of the command line, from the application itself."""

import re

from radii.cli import app


def reference() -> str:
    """Every command with its arguments and options."""
    text = app.generate_docs(output_format="markdown")
    # The page has its own title, and the site lists the sections beside it.
    commands = "## radii " + text.partition("\n## radii ")[2]
    return re.sub(r" \*\[default: False\]\*", "", _without_anchors(commands))


def _without_anchors(text: str) -> str:
    return re.sub(r"^## (radii [\w-]+)$", r"## `\1`", text, flags=re.MULTILINE)
