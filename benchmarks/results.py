"""scripts/results: write docs/results.md, results/diary.md and the README's numbers from templates and results/.

A template is the page with a placeholder, {{NAME ARGUMENT ...}}, for every number. A literal number in its prose
is an error, so each one on the page comes from a file, or is an aim or a setting that LITERALS lists.
Commands, indented or in backticks, stay as they are.
"""

import re
import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path

from benchmarks import scoreboard
from benchmarks.archive import Archive, Measured, describe_images, down, up
from radii.reports.metrics import without_noise

ROOT = Path(__file__).parents[1]
WIDTH = 120
NOTICE = "<!-- Written by scripts/results: edit docs/results.template.md and run it again. -->"
DIARY_NOTICE = "<!-- Written by scripts/results: edit results/diary.template.md and run it again. -->"
README_NOTICE = "<!-- Written by scripts/results: edit docs/readme.template.md and run it again. -->"
README_END = "<!-- End of what scripts/results writes. -->"
PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
COMMAND = re.compile(r"^ {4}.*$|`[^`]*[A-Za-z][^`]*`", re.MULTILINE)
NUMBER = re.compile(r"(?<!\w)(?<!\w-)\d(?:[\d.,]*\d)?")
"""Not the digits of a name such as int8 or CIFAR-10."""
RADIUS = re.compile(r"\d\.\d\d")
LITERALS = {
    "aim": {"0.01", "0.02", "0.03", "0.60"},
    "setting": {"0.001", "256", "1,024", "0.25", "0.5", "0.50", "100,000"},
}
"""Numbers that are not measured: aims, and the papers' settings."""


def main() -> None:
    pages = {"docs/results.md": write(ROOT), "results/diary.md": write_diary(ROOT), "README.md": write_readme(ROOT)}
    for name, text in pages.items():
        (ROOT / name).write_text(text)
        print(name)


def write(root: Path) -> str:
    """Return docs/results.md, from the template and the files under this root."""
    return f"{NOTICE}\n\n{render((root / 'docs' / 'results.template.md').read_text(), Archive(root))}"


def write_diary(root: Path) -> str:
    """Return results/diary.md, from its template and the files under this root."""
    return f"{DIARY_NOTICE}\n\n{render((root / 'results' / 'diary.template.md').read_text(), Archive(root))}"


def write_readme(root: Path) -> str:
    """Return the README, with its numbers from the template and the files under this root."""
    readme = (root / "README.md").read_text()
    if (readme.count(README_NOTICE), readme.count(README_END)) != (1, 1):
        raise ValueError(f"README.md should have the line {README_NOTICE!r} and the line {README_END!r}, each once")
    before, _, rest = readme.partition(README_NOTICE)
    numbers = render((root / "docs" / "readme.template.md").read_text(), Archive(root))
    return f"{before}{README_NOTICE}\n\n{numbers}\n{README_END}{rest.partition(README_END)[2]}"


def render(template: str, archive: Archive) -> str:
    """Fill the placeholders of the template and wrap its paragraphs again."""
    if typed := typed_numbers(template):
        raise ValueError(f"the template has the number {typed[0]}: put a placeholder there that reads it from a file")
    filled = PLACEHOLDER.sub(lambda found: _value(found[1].strip(), archive), template)
    return "\n\n".join(map(_wrapped, filled.strip().split("\n\n"))) + "\n"


def typed_numbers(template: str) -> list[str]:
    """Return numbers outside of placeholders and commands."""
    return NUMBER.findall(COMMAND.sub("", PLACEHOLDER.sub("", template)))


def _wrapped(block: str) -> str:
    if block.startswith(("#", "|", "    ")):
        return block
    marker = "- " if block.startswith("- ") else ""
    items = block.removeprefix(marker).split(f"\n{marker}") if marker else [block]
    return "\n".join(_filled(marker + item, len(marker)) for item in items)


def _filled(text: str, indent: int) -> str:
    text, margin = " ".join(text.split()), " " * indent
    return textwrap.fill(text, WIDTH, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def _value(words: str, archive: Archive) -> str:
    name, _, rest = words.partition("\n") if words.startswith("table") else words.partition(" ")
    if name in LITERALS:
        return _literal(name, rest)
    if name not in VALUES:
        raise ValueError(f"the template asks for {name!r}, expected one of {', '.join((*VALUES, *LITERALS))}")
    return VALUES[name](archive, *([rest] if name == "table" else shlex.split(rest)))


def _literal(kind: str, text: str) -> str:
    if text not in LITERALS[kind]:
        raise ValueError(
            f"{text} is not among the {kind}s of benchmarks/results.py: if it is not measured, add it there"
        )
    return text


def _table(archive: Archive, body: str) -> str:
    """Render a table from a line of column names and a line `label | name` for each row."""
    head, *rows = ([cell.strip() for cell in line.split("|")] for line in body.splitlines())
    if typed := [row[0] for row in [head, *rows] if NUMBER.search(row[0])]:
        raise ValueError(
            f"the row {typed[0]!r} of a table has a typed number: make it a column that reads it from a file"
        )
    lines = [[label, *(_cell(archive, name, column) for column in head[1:])] for label, name in rows]
    return "\n".join(
        "".join(f"| {cell} " if cell else "| " for cell in line) + "|" for line in [head, ["---"] * len(head), *lines]
    )


def _cell(archive: Archive, name: str, column: str) -> str:
    if name.startswith("published/"):
        return archive.published[name.removeprefix("published/")].get(column.lower(), "")
    if column in COLUMNS:
        return COLUMNS[column](archive, name)
    if not RADIUS.fullmatch(column):
        raise ValueError(f"no column {column!r}, expected a radius such as 0.50 or one of {', '.join(COLUMNS)}")
    return _share(archive, name, column) if float(column) <= archive.summary(name).largest else ""


def _share(archive: Archive, name: str, radius: str) -> str:
    """Return certified accuracy in per cent, rounded down as in a report."""
    archive.expect_decided(name, float(radius))
    return down(archive.summary(name).at(float(radius)).value, 1, 2)


def _acr(archive: Archive, name: str) -> str:
    return down(archive.summary(name).acr, 3)


def _weight(archive: Archive, name: str) -> str:
    """Return the weight of an objective's second term, where its recipe states one."""
    stated = archive.setting(name, "objective").get("weight")
    return "" if stated is None else f"{stated:g}"


def _published_over_seeds(archive: Archive, name: str) -> str:
    """Return the mean and deviation that the papers report for a run named DATASET/BUDGET/METHOD-seed0; none for a
    student."""
    dataset, _, run = name.split("/")
    found = re.fullmatch(r"(.+)-seed\d", run)
    return archive.published.get(f"{dataset}/{found[1]}", {}).get("over seeds", "") if found else ""


def _below(archive: Archive, name: str, other: str, digits: str = "3") -> str:
    return _plus_minus(archive.difference(other, name), int(digits))


def _points(archive: Archive, name: str, other: str, radius: str) -> str:
    """Return the points of certified accuracy at a radius by which the first is above the second."""
    found = archive.difference_at(name, other, float(radius))
    return _plus_minus(Measured(100 * found.value, 100 * found.error), 1)


def _samples_per_image(archive: Archive, name: str) -> str:
    spent = archive.summary(name).samples
    return "" if spent is None else f"{spent / archive.summary(name).images:,.0f}"


def _plus_minus(found: Measured, digits: int) -> str:
    return f"{found.value:z.{digits}f} ± {found.error:.{digits}f}"


def _verdict(archive: Archive, name: str, published: str, aim: str, cheap: str = "") -> str:
    """Return whether an ACR, or the estimate of it on the whole test set, is within the aim of the published one."""
    acr = archive.whole(name, cheap).value if cheap else archive.summary(name).acr
    left = float(_literal("aim", aim)) - abs(acr - float(archive.published[published]["acr"]))
    return f"met with {down(left, 4)} to spare" if left >= 0 else f"**missed by {up(-left, 4)}**"


def _under(archive: Archive, budget: str, name: str) -> str:
    """Return the runs of a budget whose ACR is below that of one of them."""
    best = archive.summary(f"{budget}/{name}").acr
    names = sorted(path.name for path in (archive.folder / budget).iterdir())
    return _listed([each for each in names if archive.summary(f"{budget}/{each}").acr < best])


def _teacher(archive: Archive, name: str) -> str:
    """Return how far a student is below the first teacher."""
    run = archive.run(name)
    while (teacher := run.source("teacher")) is not None:
        run = type(run)(teacher)
    return _below(archive, name, str(run.path.relative_to(archive.folder)), "4")


def _without_noise(archive: Archive, name: str) -> str:
    """Return the accuracy of the network alone, in per cent."""
    alone = without_noise(archive.run(name))
    assert alone is not None
    return down(alone.value, 1, 2)


def _teacher_epochs(archive: Archive, name: str) -> str:
    """Return for how many epochs the teacher of a student was trained; empty for a run without a teacher."""
    teacher = archive.run(name).source("teacher")
    return "" if teacher is None else VALUES["epochs"](archive, str(Path(teacher).relative_to(archive.folder)))


def _worth(archive: Archive, name: str) -> str:
    """Return the training time of a student, in epochs of the teacher's method."""
    return f"{sum(archive.history(name, 'seconds')) / archive.method_seconds(name):.1f}"


def _hours(archive: Archive, budget: str) -> str:
    """Return the training time of all runs of a budget, in hours."""
    runs = [f"{budget}/{path.name}" for path in (archive.folder / budget).iterdir()]
    return f"{sum(sum(archive.history(run, 'seconds')) for run in runs) / 3600:.1f}"


def _speed(archive: Archive, title: str, row: str, column: str) -> str:
    return archive.speeds(title)[row][column]


def _share_of_published(archive: Archive, which: str, aim: str) -> str:
    """Return the methods whose epoch costs at most this share of the published cost, or those that cost more."""
    rows = archive.speeds("MNIST, LeNet")
    shares = {name: row["share of published"] for name, row in rows.items() if row["share of published"]}
    limit = float(_literal("aim", aim))
    return _listed(
        [f"{name} ({share})" for name, share in shares.items() if (float(share) <= limit) == (which == "met")]
    )


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"


def _paper(archive: Archive, name: str) -> str:
    row = archive.published[name]
    return f"{row['paper']}, Table {row['table']}"


VALUES: dict[str, Callable[..., str]] = {
    "table": _table,
    "scoreboard": scoreboard.scoreboard,
    "scoreboard-head": scoreboard.head,
    "acr": _acr,
    "share": _share,
    "error": lambda archive, name: f"{archive.error(name):.3f}",
    "below": _below,
    "above": lambda archive, name, other: _below(archive, other, name),
    "points": _points,
    "gap": lambda archive, name, other: f"{archive.difference(other, name).value:.4f}",
    "whole": lambda archive, few, cheap: _plus_minus(archive.whole(few, cheap), 3),
    "verdict": _verdict,
    "under": _under,
    "images": lambda archive, name: describe_images(archive.made(name)),
    "count": lambda archive, name: f"{archive.summary(name).images:,}",
    "samples": lambda archive, name: f"{archive.made(name).parameters['estimation']:,}",
    "failure": lambda archive, name: f"{archive.made(name).failure}",
    "most": lambda archive, name: f"{archive.made(name).parameters['most_samples']:,}",
    "every": lambda archive, name: f"{archive.made(name).header['every']}",
    "seed": lambda archive, name: f"{archive.made(name).header['seed']}",
    "sigma": lambda archive, name: f"{archive.made(name).sigma:.2f}",
    "largest": lambda archive, name: f"{archive.summary(name).largest:.1f}",
    "epochs": lambda archive, name: f"{len(archive.history(name, 'epoch'))}",
    "seconds": lambda archive, name: f"{archive.epoch_seconds(name):.0f}",
    "last": lambda archive, name, column, digits: f"{archive.history(name, column)[-1]:.{digits}f}",
    "recipe": lambda archive, name, key: f"{archive.setting(name, key):g}",
    "votes": lambda archive, name: f"{archive.votes(name):,}",
    "hours": _hours,
    "published": lambda archive, name, column: archive.published[name][column],
    "paper": _paper,
    "speed": _speed,
    "speeds": _share_of_published,
}
"""The placeholders by name."""
COLUMNS: dict[str, Callable[[Archive, str], str]] = {
    "ACR": _acr,
    "seeds": lambda archive, name: str(len(archive.seeds(name))),
    "ACR over seeds": Archive.over_seeds,
    "published": _published_over_seeds,
    "weight": _weight,
    "sharpness": lambda archive, name: f"{archive.made(name).parameters['sharpness']:g}",
    "images": VALUES["count"],
    "sigma": VALUES["sigma"],
    "n": lambda archive, name: (
        scoreboard.samples(archive.made(name).parameters).removeprefix("n = ").removeprefix("n ")
    ),
    "samples per image": _samples_per_image,
    "minutes of certifying": lambda archive, name: f"{archive.summary(name).seconds / 60:.0f}",
    "engine": lambda archive, name: str(archive.made(name).header["engine"]),
    "seconds per epoch": VALUES["seconds"],
    "epochs": VALUES["epochs"],
    "hours of a core": lambda archive, name: f"{scoreboard.core_hours(archive.run(name)) or 0.0:.2f}",
    "without noise": _without_noise,
    "epochs of its teacher": _teacher_epochs,
    "minutes of training": lambda archive, name: f"{sum(archive.history(name, 'seconds')) / 60:.0f}",
    "below the first teacher": _teacher,
    "an epoch of the first teacher's method": lambda archive, name: f"{archive.method_seconds(name):.0f}",
    "all epochs, in epochs of that method": _worth,
}
"""The columns of a table beside certified accuracy at a radius."""

if __name__ == "__main__":
    main()
