"""The references of the manual, made from the code when the site is built: recipes, commands, Python, papers' tables.

A line `<!-- made: NAME -->` of a page is replaced by the result of MADE[NAME].
"""

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import radii
from radii.cli import app
from tools.manual import components
from tools.manual.components import field_table

TABLES = Path(__file__).parents[2] / "tables"
WIDTH = 88
NO_MODULE = "```{py:currentmodule} None\n```"
"""Names that follow are complete."""


def commands() -> str:
    """Return every command with its arguments and options."""
    text = app.generate_docs(output_format="markdown")
    # The page has its own title, and the site lists the sections beside it.
    sections = re.split(r"^(?=## radii )", text, flags=re.MULTILINE)[1:]
    text = "\n".join(section.strip() + "\n" for section in sorted(sections))
    # The usage would name the module that Python was started with.
    text = re.sub(r"^(radii [\w-]+) -m \w+", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r" \*\[default: False\]\*", "", text)
    return re.sub(r"^## (radii [\w-]+)$", r"## `\1`", text, flags=re.MULTILINE)


TOPICS = {
    "Train": ("train", "transfer", "import_model", "import_ensemble", "Recipe", "Run"),
    "A smoothed classifier": ("SmoothedClassifier", "Normalised", "load"),
    "Predict and certify": (
        *("predict", "predict_once", "certify", "certify_dataset", "certify_population", "Certificate", "ABSTAIN"),
    ),
    "Results": ("Results", "read_results", "compare", "report"),
    "Check": ("attack", "Attack", "verify", "VerificationResult"),
    "Share": ("export", "push", "pull"),
    "Bounds": ("bounds",),
    "Version": ("__version__",),
}
"""The public names by topic, in the order of the page."""
INTERNAL = {
    "Recipe": {"flat"},
    "Run": {"claim", "environment", "origin", "source", "stated_recipe", "write_history", "writing"},
    "SmoothedClassifier": {"adopt", "count", "prepared_for", "probe_logits", "state"},
}
"""Methods that the package's other modules need, and that are not promised to users."""


def python() -> str:
    """Return every public name by topic, with its signature and docstring, as objects that other manuals can link."""
    sections = [
        "\n\n".join([f"## {topic}", *(_entry(name, getattr(radii, name)) for name in names)])
        for topic, names in TOPICS.items()
    ]
    return "\n\n".join([_object("module", "radii"), NO_MODULE, *sections])


def _object(kind: str, name: str) -> str:
    """Return a directive that lists an object in objects.inv and shows nothing."""
    call = "()" if kind in ("function", "method") else ""
    options = "" if kind == "module" else "\n:no-typesetting:"
    return f"```{{py:{kind}}} {name}{call}{options}\n```"


def _entry(name: str, found: Any) -> str:
    full = f"radii.{name}"
    if inspect.ismodule(found):
        listed = "\n\n".join(_function(name, key, found) for key in _public(found))
        return "\n\n".join([f"### `{name}`", _object("module", full), NO_MODULE, _text(found), listed])
    if not callable(found):
        return f"{_object('data', full)}\n\n### `{name}`\n\n`{found!r}`"
    kind = "class" if inspect.isclass(found) else "function"
    parts = [_object(kind, full), f"### `{name}`", _signature(full, found), _text(found)]
    if inspect.isclass(found):
        parts += [field_table(found)] if dataclasses.is_dataclass(found) else []
        parts += [_member(name, key, member) for key, member in _members(found)]
    return "\n\n".join(filter(None, parts))


def _public(module: Any) -> list[str]:
    return list(getattr(module, "__all__", ()))


def _function(owner: str, key: str, module: Any) -> str:
    found, full = getattr(module, key), f"radii.{owner}.{key}"
    return f"{_object('function', full)}\n\n{_signature(full, found)}\n\n{_text(found)}" if callable(found) else ""


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented public methods and properties, in the order of the source."""
    for key, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if (
            key[0] != "_"
            and key not in INTERNAL.get(kind.__name__, ())
            and inspect.getdoc(plain)
            and (inspect.isfunction(plain) or isinstance(plain, property))
        ):
            yield key, plain


def _member(owner: str, key: str, member: Any) -> str:
    full = f"radii.{owner}.{key}"
    if isinstance(member, property):
        return f"{_object('property', full)}\n\n**`{owner}.{key}`** — {_text(member)}"
    return f"{_object('method', full)}\n\n{_signature(f'{owner}.{key}', member)}\n\n{_text(member)}"


def _signature(name: str, found: Callable[..., Any]) -> str:
    """Return the call as a code block, one parameter a line where it is long."""
    try:
        signature = inspect.signature(found)
    except ValueError:
        return ""
    parts, result = _parameters(signature), _result(signature)
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) > WIDTH:
        line = "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){result}"])
    return f"```python\n{line}\n```"


def _parameters(signature: inspect.Signature) -> list[str]:
    """Return the parameters as they are written in a definition, with the star before those that need their name."""
    shown = [each for each in signature.parameters.values() if each.name != "self"]
    named = [each.kind is each.KEYWORD_ONLY for each in shown]
    star = named.index(True) if True in named and not any(each.kind is each.VAR_POSITIONAL for each in shown) else None
    parts = [_short(str(each)) for each in shown]
    return parts if star is None else [*parts[:star], "*", *parts[star:]]


def _result(signature: inspect.Signature) -> str:
    known = signature.return_annotation not in (signature.empty, None)
    return f" -> {_short(inspect.formatannotation(signature.return_annotation))}" if known else ""


def _short(annotation: str) -> str:
    """Return an annotation without the modules of its names."""
    plain = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", annotation)
    plain = re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]", r"NDArray[\1]", plain)
    return re.sub(r"<function .*>", "...", plain)


def _text(found: Any) -> str:
    """Return a docstring as Markdown: its examples as code."""
    text = inspect.getdoc(found) or ""
    return re.sub(r"^>>> .*(?:\n.+)*", lambda example: f"```python\n{example[0]}\n```", text, flags=re.MULTILINE)


def tables() -> str:
    """Return every file of tables/ that describes a table, with its title and rows."""
    paths = sorted(TABLES.glob("*.toml"), key=_paper_and_number)
    contents = {path.stem: tomllib.loads(path.read_text()) for path in paths}
    lines = [_table_line(name, table) for name, table in contents.items() if "title" in table]
    return "\n".join(["| table | dataset | what it shows | rows |", "| --- | --- | --- | --- |", *lines])


def _paper_and_number(path: Path) -> tuple[str, int]:
    """Return the paper and the number of the table."""
    paper, _, number = path.stem.partition("-")
    return paper, int(number) if number.isdecimal() else 0


def _table_line(name: str, table: dict[str, Any]) -> str:
    dataset = table.get("dataset", "")
    where = dataset if isinstance(dataset, str) else ", ".join(dataset)
    title = str(table["title"]).replace("|", "\\|")
    return f"| `{name}` | {where} | {title} | {len(table.get('rows', ()))} |"


MADE: dict[str, Callable[[], str]] = {
    "recipe": components.recipe,
    "training": components.training,
    "objectives": components.objectives,
    "models": components.models,
    "denoisers": components.denoisers,
    "datasets": components.datasets,
    "noises": components.noises,
    "certifiers": components.certifier_shelf,
    "populations": components.population_shelf,
    "engines": components.engine_shelf,
    "recipes": components.recipes,
    "commands": commands,
    "python": python,
    "tables": tables,
}
MARK = re.compile(r"^<!-- made: (\w+) -->$", re.MULTILINE)


def fill(page: str) -> str:
    """Return a page with its references filled in."""
    return MARK.sub(lambda found: MADE[found[1]](), page)
