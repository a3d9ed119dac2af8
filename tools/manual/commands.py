"""The reference of the command line, from the application itself."""

import re

from radii.cli import app


def reference() -> str:
    """Every command with its arguments and options."""
    text = app.generate_docs(output_format="markdown")
    # The page has its own title, and the site lists the sections beside it.
    sections = re.split(r"^(?=## radii )", text, flags=re.MULTILINE)[1:]
    commands = "\n".join(section.strip() + "\n" for section in sorted(sections))
    # The usage would name the module that Python was started with.
    commands = re.sub(r"^(radii [\w-]+) -m \w+", r"\1", commands, flags=re.MULTILINE)
    commands = re.sub(r" \*\[default: False\]\*", "", commands)
    return re.sub(r"^## (radii [\w-]+)$", r"## `\1`", commands, flags=re.MULTILINE)
