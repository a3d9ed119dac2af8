"""scripts/coverage: write docs/coverage.md from docs/coverage.toml, tables/ and the runs in results/.

The list says what the papers have and the facts that an archived run would have; the status of an item is computed.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from radii import plugins
from radii.fields import from_mapping
from radii.papers import tables
from radii.papers.budgets import REGISTRIES
from radii.papers.comparison import complete_results
from radii.papers.match import FAILED_RUNS, match_runs, scan_runs, soft_label_samples
from radii.runs import certificates, lineage, recipe
from radii.runs.certificates import header_file, read_header
from radii.runs.run import Run

ROOT = Path(__file__).parents[1]
NOTICE = "<!-- Written by scripts/coverage: edit docs/coverage.toml or add runs to results/, and run it again. -->"
MEASURED, CODE, MISSING = "works and measured", "code, never run for real", "missing"
Facts = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Item:
    """A method, variant, protocol or figure of the papers."""

    item: str
    papers: str
    command: str
    code: Sequence[str] = ()
    """Files that the command needs, or FILE:WORD for a word in one."""
    measured: Facts | Sequence[Facts] = field(default_factory=dict)
    """The properties of a run that measured it; of the values in a list, one is enough. Each of several sets of
    properties needs a run."""
    shown: Sequence[str] = ()
    """Tests or pages that show it on published numbers, without a run."""
    note: str = ""
    """A remark beside the evidence."""
    partly: str = ""
    """What exists while it is not measured as in the papers."""


def main() -> None:
    page = ROOT / "docs" / "coverage.md"
    page.write_text(write(ROOT))
    print(page.relative_to(ROOT))


def write(root: Path) -> str:
    """Return the page, from the files under this root."""
    runs = list(archived(root))
    found = [(item, *status(item, runs, root)) for item in items(root)]
    counts = Counter(word for _, word, _ in found)
    summary = ", ".join(f"{counts[word]} {word}" for word in (MEASURED, CODE, MISSING))
    parts = [
        NOTICE,
        "# What of the papers is here",
        f"{len(found)} systems, variants, protocols and figures of the papers on CRT, MACER, Consistency and CAT-RS: "
        f"{summary}. Measured is what an archived run with certificates has, or a test on published numbers or a page "
        "of measurements shows; a run's budget is its own, as results/README.md states it. `radii table` shows every "
        "row of the papers' tables; `logs` in a command stands for a folder of certification logs that the methods' "
        "authors have published.",
        *(
            _section(word, [(item, why) for item, each, why in found if each == word])
            for word in (MEASURED, CODE, MISSING)
        ),
        _tables(root),
    ]
    return "\n\n".join(parts) + "\n"


def items(root: Path) -> list[Item]:
    listed = tomllib.loads((root / "docs" / "coverage.toml").read_text())["items"]
    return [from_mapping(Item, each, f"the item {each.get('item')!r}") for each in listed]


def status(item: Item, runs: Sequence[tuple[str, Facts]], root: Path) -> tuple[str, str]:
    """Return the status of an item and its evidence."""
    absent = [each for each in item.code if not _is_there(each, root)]
    if absent:
        return MISSING, item.note or f"no {absent[0]}"
    if having := _having(item, runs):
        more = f" and {len(having) - 1} more" if len(having) > 1 else ""
        return MEASURED, "; ".join(filter(None, [f"{having[0]}{more}", item.note]))
    if item.shown and all(_is_there(each.replace("::", ":"), root) for each in item.shown):
        return MEASURED, ", ".join(item.shown)
    return CODE, item.partly or item.note or ", ".join(item.code)


def _having(item: Item, runs: Sequence[tuple[str, Facts]]) -> list[str]:
    """Return the runs that measured the rarest part of an item; none if a part has no run yet."""
    wanted = [item.measured] if isinstance(item.measured, Mapping) else item.measured
    found = [{name for name, facts in runs if each and has(facts, each)} for each in wanted]
    rarest: set[str] = min(found, key=len)
    return sorted(rarest, key=_worth) if all(found) else []


def _worth(name: str) -> tuple[bool, str]:
    """Return the key that sorts evidence, the embedded digits last."""
    return name.startswith("results/digits/"), name


def _is_there(named: str, root: Path) -> bool:
    path, _, word = named.partition(":")
    return (root / path).is_file() and word in (root / path).read_text()


def has(facts: Facts, wanted: Facts) -> bool:
    """Return whether a run has all required properties."""
    return all(
        facts.get(key) in value if isinstance(value, list) else facts.get(key) == value for key, value in wanted.items()
    )


def archived(root: Path) -> Iterator[tuple[str, Facts]]:
    """Yield every archived run with its properties, once for each of its certificate files."""
    for path in sorted((root / "results").rglob("recipe.toml")):
        run = Run(path.parent)
        if FAILED_RUNS in path.parts:
            continue
        for file in sorted(run.certificates.glob("*.tsv")):
            if certificates.has_rows(file):
                name = run.path.relative_to(root).as_posix()
                yield name, {"run": name, **_trained(run), **_certified(read_header(header_file(file)))}


def _trained(run: Run) -> dict[str, Any]:
    facts = _flat(run)
    taught = lineage.teachers(run)
    facts["teachers"] = len(taught)
    if taught and taught[0].recipe_file.is_file():
        facts |= {f"teacher.{key}": value for key, value in _flat(taught[0]).items()}
    return facts | {"soft_labels.samples": soft_label_samples(run)}


def _flat(run: Run) -> dict[str, Any]:
    """Return the fields of a recipe, those of its components with their defaults."""
    found: dict[str, Any] = {}
    for key, value in asdict(recipe.read(run.recipe_file)).items():
        stated = {**_defaults(key, value), **value} if isinstance(value, Mapping) else {}
        found |= {f"{key}.{name}": each for name, each in stated.items()} if stated else {key: value}
    return found


def _defaults(kind: str, stated: Facts) -> Facts:
    name = stated.get("name")
    shipped = kind in REGISTRIES and isinstance(name, str) and ":" not in name
    return plugins.defaults(REGISTRIES[kind], str(name)) if shipped else {}


def _certified(header: Facts) -> dict[str, Any]:
    stated = {**header.get("parameters", {}), **{key: header.get(key) for key in ("procedure", "every", "engine")}}
    evaluated = header.get("evaluated_on") or {}
    return {f"certificates.{key}": value for key, value in {**stated, "evaluated_on": evaluated.get("name")}.items()}


def _section(title: str, found: Sequence[tuple[Item, str]]) -> str:
    lines = [
        f"## {title[0].upper()}{title[1:]}: {len(found)}",
        "",
        "| what | papers | command | evidence |",
        "| --- | --- | --- | --- |",
    ]
    for item, why in found:
        command = f"`{item.command}`" if item.command and title != MISSING else ""
        lines.append(f"| {item.item} | {item.papers} | {command} | {why} |")
    return "\n".join(lines)


def _tables(root: Path) -> str:
    """Return every table with its rows."""
    found = scan_runs([root / "results"])
    lines = [
        "## Rows of the tables",
        "",
        "| table | rows | with a result here | not made yet | missing |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in tables.names():
        each = tables.load(name)
        results = match_runs(each, found)
        done = sum(bool(complete_results(each, results, row)) for row in each.rows)
        missing = sum(bool(row.why) for row in each.rows)
        shown = ("–", "–") if each.kind == "settings" else (str(done), str(len(each.rows) - done - missing))  # noqa: RUF001
        lines.append(f"| {name} | {len(each.rows)} | {shown[0]} | {shown[1]} | {missing} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
