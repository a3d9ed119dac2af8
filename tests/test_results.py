"""docs/results.md is up to date: every number comes from a file in results/."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from benchmarks import scoreboard
from benchmarks.archive import Archive
from benchmarks.results import (
    NOTICE,
    README_END,
    README_NOTICE,
    render,
    typed_numbers,
    write_diary,
    write_readme,
)
from radii import cli
from radii.reports.report import report
from radii.runs.run import Run

pytestmark = pytest.mark.archive

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = (ROOT / "docs" / "results.md").read_text()
DIARY = (RESULTS / "diary.md").read_text()
OWN = ("examples.convnet", "examples.cifar_nets", "examples.efficientnet_lite")
"""The module of a user-defined architecture that runs in the archive name."""
RUNS = sorted(path.parent for path in RESULTS.rglob("recipe.toml"))
TRIED = [path for path in RUNS if "tried" in path.parts]
BUDGETS = sorted({path.parent for path in RUNS if path not in TRIED and any(path.glob("certificates/*.tsv"))})
"""Those with certificates: of one whose runs are not finished, nothing can be reported yet."""
STUDENTS = [path for path in RUNS if Run(path).source("teacher")]
WITH_SOFT_LABELS = [path for path in RUNS if Run(path).source("soft_labels")]


def name(path: Path) -> str:
    return str(path.relative_to(RESULTS))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the files behind the page, for a test to change."""
    shutil.copytree(RESULTS, tmp_path / "results", ignore=shutil.ignore_patterns("*.safetensors", "*.npy"))
    (tmp_path / "docs").mkdir()
    for file in ("performance.md", "results.template.md"):
        shutil.copy(ROOT / "docs" / file, tmp_path / "docs")
    return tmp_path


class Recorder(Archive):
    """An archive that keeps the certificate files that were asked for in `asked`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: set[Path] = set()

    def file(self, name: str) -> Path:
        file = super().file(name)
        self.asked.add(file)
        return file


def test_page_is_up_to_date_and_reads_every_certificate_file() -> None:
    archive = Recorder(ROOT)
    page = render((ROOT / "docs" / "results.template.md").read_text(), archive)
    assert f"{NOTICE}\n\n{page}" == PAGE, "run scripts/results"
    assert archive.asked == set(RESULTS.rglob("*.tsv"))


def test_diary_is_up_to_date() -> None:
    assert write_diary(ROOT) == DIARY, "run scripts/results"


def test_points_are_of_the_file_with_the_most_images() -> None:
    points = scoreboard.points(Archive(ROOT), "cifar10", 0.25, 0.25)
    shares = {method: share for method, _, share in points}
    assert int(10 * shares["smoothmix"]) == 583
    runs = [file for file in (RESULTS / "cifar10").glob("*/*/recipe.toml") if file.parts[-3] != "brought"]
    assert len(points) == len(runs)


def test_scoreboard_states_hours_accuracy_and_protocol() -> None:
    """SmoothMix on CIFAR-10, by both certifiers; hours are those of one thread."""
    lines = scoreboard.scoreboard(Archive(ROOT), "cifar10", "0.25", "0.75").splitlines()
    fixed, sequential = (line for line in lines if "[`twelve-epochs/smoothmix`](" in line)
    seconds = Archive(ROOT).history("cifar10/twelve-epochs/smoothmix", "seconds")
    assert f"| smoothmix | cifar_resnet20, width 16 | 0.25 | {sum(seconds) / 3600:.2f} |  |" in fixed
    (hardened,) = (line for line in lines if "[`brought/resnet20-hardened`](" in line)
    assert "| 67.0 |  | 56.4 |" in hardened
    assert "| 57.6 | 35.0 | 500 | fixed, n = 10,000, openvino_int8 |" in fixed
    assert "|  | 58.3 |  | 10,000 | sequential, n at most 10,000, openvino_int8 |" in sequential
    assert "| consistency | published | 0.25 |  |  | 0.552 | 67.6 | 46.7 |" in lines[-1]


def test_every_row_of_the_scoreboard_links_to_the_recipe_of_its_run() -> None:
    links = re.findall(r"\]\((\.\./results/.*?)\) \|$", PAGE, re.MULTILINE)
    certified = [path for path in RUNS if any(path.glob("certificates/*.tsv"))]
    assert {(ROOT / "docs" / link).resolve() for link in links} <= {path / "recipe.toml" for path in certified}
    assert len(links) == len(re.findall(r"^\| .*\| \[`", PAGE, re.MULTILINE)) > 60


def test_head_of_the_scoreboard_has_the_best_rows_of_the_most_images() -> None:
    lines = scoreboard.head(Archive(ROOT), "cifar10", "0.25", "0.25", "0.50").splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    own = [row for row in cells if row[1] != "published"]
    shares = [float(row[4]) for row in own]
    assert len(own) == scoreboard.BEST
    assert shares == sorted(shares, reverse=True)
    assert {row[6] for row in own} == {"10,000"}
    every = [row for row in scoreboard.rows(Archive(ROOT), "cifar10") if row.sigma == 0.25]
    whole = [summary for row in every if (summary := Archive(ROOT).summary(row.name)).images == 10_000]
    assert shares[0] == pytest.approx(100 * max(summary.at(0.25).value for summary in whole), abs=0.1)
    assert [row[0] for row in cells if row[1] == "published"] == ["gaussian", "consistency"]


def test_hours_count_threads_and_processes(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "digits/thirty-epochs/gaussian", tmp_path / "run")
    run = Run(tmp_path / "run")
    once = scoreboard.core_hours(run)
    stated = {**run.environment(), "threads": 2, "training": [{"epoch": 0, "processes": 3, "step": 0}]}
    threads = run.environment()["threads"]
    (tmp_path / "run" / "environment.json").write_text(json.dumps(stated))
    assert once is not None
    assert scoreboard.core_hours(Run(tmp_path / "run")) == pytest.approx(once * 6 / threads)


def test_hours_count_the_archived_run_that_a_run_continues(tmp_path: Path) -> None:
    for name in ("first", "second"):
        shutil.copytree(RESULTS / "digits/thirty-epochs/gaussian", tmp_path / name)
    first, second = Run(tmp_path / "first"), Run(tmp_path / "second")
    once = scoreboard.core_hours(first)
    assert once is not None
    (second.path / "origin.json").write_text(json.dumps({"initial": {"path": "../first", "hash": "0" * 64}}))
    assert scoreboard.core_hours(Run(second.path)) == pytest.approx(2 * once)
    shutil.rmtree(first.path)
    assert scoreboard.core_hours(Run(second.path)) == pytest.approx(once)


@pytest.mark.parametrize("place", [0, -1])
def test_missing_certificate_file_is_an_error(copy: Path, place: int) -> None:
    sorted((copy / "results").rglob("*.tsv"))[place].unlink()
    with pytest.raises(ValueError, match="certificate files, expected 1"):
        write_diary(copy)


def test_changed_certificate_changes_the_page(copy: Path) -> None:
    (file,) = (copy / "results/mnist/six-epochs/gaussian/certificates").glob("*.tsv")
    lines = [re.sub(r"^(\d+\t\d+\t\d+\t)[\d.]+", r"\g<1>0.1", line) for line in file.read_text().splitlines()]
    file.write_text("\n".join([*lines, ""]))
    before, after = (render("{{acr mnist/six-epochs/gaussian}}", Archive(root)) for root in (ROOT, copy))
    assert before != after


@pytest.fixture
def decided(tmp_path: Path) -> Archive:
    """An archive of one run with certificates by `fixed` and by `sequential`."""
    run = tmp_path / "results/digits/thirty-epochs/gaussian"
    shutil.copytree(RESULTS / "digits/thirty-epochs/gaussian", run)
    asked = ["--with", "sequential", "--radii", "0.25,0.5", "--set", "most_samples=1000"]
    cli.app(
        ["certify", str(run), "--every", "30", "--engine", "torch", "--workers", "1", *asked],
        result_action="return_value",
    )
    return Archive(tmp_path)


def test_a_run_with_decisions_still_stands_for_its_fixed_certificates(decided: Archive) -> None:
    name = "digits/thirty-epochs/gaussian"
    assert render(f"{{{{acr {name}}}}}", decided) == render(f"{{{{acr {name}}}}}", Archive(ROOT))
    assert decided.made(f"{name}:sequential").certifier == "sequential"


def test_points_between_two_certificate_files_of_a_radius(decided: Archive) -> None:
    name = "digits/thirty-epochs/gaussian"
    found = decided.difference_at(f"{name}:sequential", name, 0.25)
    mine, theirs = (decided.certified(each, 0.25) for each in (f"{name}:sequential", name))
    shared = mine.keys() & theirs.keys()
    assert len(shared) == 15
    assert found.value == pytest.approx((sum(mine[i] for i in shared) - sum(theirs[i] for i in shared)) / 15)
    assert render(f"{{{{points {name} {name} 0.25}}}}", decided).strip().endswith("0.0 ± 0.0")


@pytest.mark.parametrize("placeholder", ["share NAME 0.75", "points NAME NAME 0.75"])
def test_a_radius_that_was_not_decided_is_refused(decided: Archive, placeholder: str) -> None:
    text = placeholder.replace("NAME", "digits/thirty-epochs/gaussian:sequential")
    with pytest.raises(ValueError, match="did not decide the radius"):
        render(f"{{{{{text}}}}}", decided)


@pytest.mark.parametrize(
    "file", ["mnist/six-epochs/macer/training.csv", "mnist/forty-epochs/smoothmix-to-lenet_wide/transfer.json"]
)
def test_missing_history_or_timing_is_an_error(copy: Path, file: str) -> None:
    (copy / "results" / file).unlink()
    with pytest.raises((ValueError, OSError), match=r"training\.csv|transfer\.json"):
        write_diary(copy)


def test_every_number_of_the_page_is_refused_in_the_template() -> None:
    for number in set(re.findall(r"\d+\.\d+", PAGE)):
        assert typed_numbers(f"The ACR was {number}, no less.") == [number]
        assert typed_numbers(f"| gaussian | {number} |") == [number]


@pytest.mark.parametrize(
    "text", ["It lost -0.021 of it.", "on `0.5` of them", "- 14 images", "(1.439)", "{{acr x}} ± 0.004"]
)
def test_literal_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="put a placeholder there"):
        render(text, Archive(ROOT))


def test_literal_number_in_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has a typed number"):
        render("{{table\nmethod | ACR\ngaussian, 1.345 | mnist/six-epochs/gaussian\n}}", Archive(ROOT))


@pytest.mark.parametrize("text", ["int8 on CIFAR-10", "    radii certify --every 20", "`--set training.epochs=6`"])
def test_names_and_commands_may_have_digits(text: str) -> None:
    assert not typed_numbers(text)


@pytest.mark.parametrize("text", ["{{aim 1.439}}", "{{setting 97.3}}", "{{said 0.5}}"])
def test_unlisted_number_is_refused_as_a_setting(text: str) -> None:
    with pytest.raises(ValueError, match=r"if it is not measured, add it there|expected one of"):
        render(text, Archive(ROOT))


@pytest.mark.parametrize("budget", BUDGETS, ids=name)
def test_every_budget_can_be_reported(budget: Path, tmp_path: Path) -> None:
    assert report(sorted(budget.glob("*")), tmp_path, trust=OWN).is_file()


@pytest.mark.parametrize("run", RUNS, ids=name)
def test_run_is_under_its_dataset_in_a_documented_budget(run: Path) -> None:
    dataset, *rest = run.relative_to(RESULTS).parts
    assert (dataset, len(rest)) == (Run(run, OWN).recipe.dataset["name"], 3 if "tried" in rest else 2)
    assert f"`{name(run.parent)}`" in (RESULTS / "README.md").read_text()


@pytest.mark.parametrize("run", STUDENTS, ids=name)
def test_student_is_named_after_its_teacher_and_finds_it(run: Path) -> None:
    student, teacher = Run(run, OWN), Run(run).source("teacher")
    assert teacher is not None
    assert student.name.startswith(f"{teacher.name}-to-{student.recipe.model['name'].replace(':', '-')}")
    made = [json.loads(file.read_text())["weights"] for file in Run(teacher).certificates.glob("*.json")]
    assert set(made) == {student.origin()["teacher"]["hash"]}


@pytest.mark.parametrize("run", WITH_SOFT_LABELS, ids=name)
def test_soft_labels_come_from_a_run_of_the_archive(run: Path) -> None:
    labels = Run(run).source("soft_labels")
    assert labels is not None
    assert labels.parent in RUNS


def test_the_archive_is_small() -> None:
    assert sum(file.stat().st_size for file in RESULTS.rglob("*") if file.is_file()) < 40_000_000
    assert not list(RESULTS.rglob("checkpoint.pt"))


def commands() -> list[str]:
    """The commands of the page, each on one line."""
    text = DIARY.replace("\\\n", "")
    settings = dict(re.findall(r'^    (\w)="(.*)"$', text, re.MULTILINE))
    lines = [line.partition(" # ")[0].strip() for line in text.splitlines() if line.startswith("    radii ")]
    return [re.sub(r"\$(\w)", lambda found: settings[found[1]], line) for line in lines]


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_page_parses(command: str) -> None:
    function, _, _ = cli.app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    assert callable(function)


def test_numbers_of_the_readme_are_written_by_the_script() -> None:
    assert write_readme(ROOT) == (ROOT / "README.md").read_text(), "run scripts/results"


PROTOCOL = {"sigma", "epochs", "engine", "images", "n"}


def test_every_table_of_the_readme_states_the_protocol_of_its_numbers() -> None:
    """A row of the README has its sigma, epochs, engine, images and samples; outside, no certified number is typed.

    Hardened networks are trained for minutes, which the text states.
    """
    readme = (ROOT / "README.md").read_text()
    before, _, rest = readme.partition(README_NOTICE)
    written, _, after = rest.partition(README_END)
    heads = re.findall(r"^(\|.*\|)\n\| ---", written, re.MULTILINE)
    scoreboard_head, hardened, *others = [{cell.strip() for cell in head.strip("|").split("|")} for head in heads]
    assert scoreboard_head >= {"network", "sigma", "hours", "images", "certified by"}
    assert hardened >= {*PROTOCOL, "without noise"} - {"epochs"}
    assert len(others) == 3
    for cells in others:
        assert cells >= {*PROTOCOL, "ACR"}
    assert re.findall(r"\d\.\d{3}|\d\.\d %", before + after) == []


def test_published_numbers_of_a_teacher_are_not_its_students() -> None:
    template = "{{table\nmethod | published\na | mnist/ten-epochs/smoothmix-%s\n}}\n"
    ends = ("0.50-seed0", "0.50-seed0-to-lenet-seed0", "0.25-seed0-to-lenet")
    teacher, *students = (render(template % end, Archive(ROOT)) for end in ends)
    assert "| a | 1.6932 ± 0.0007 |" in teacher
    assert all("| a | |" in student for student in students)
