"""Fill the templates of HTML pages."""

from pathlib import Path
from typing import Any

from radii.reports.text import html_text, plain


def render(template: Path, **values: Any) -> str:
    """Fill a template; every value is escaped unless the template marks it as HTML with `safe`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = lambda words: html_text(words).replace(" %", "&nbsp;%")
    return environment.get_template(template.name).render(values)
