"""Certificate files: one line for each image in Cohen's columns, and a header beside it that says how it was made."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radii import trust
from radii.experiment import files
from radii.experiment.run import Run, RunError
from radii.lock import locked
from radii.smoothing.certificate import ABSTAIN

COHEN = ("idx", "label", "predict", "radius", "correct", "time")
COLUMNS = (*COHEN, "samples", "counts")


@dataclass(frozen=True)
class Row:
    """The certificate of one image, and the label it is judged by."""

    index: int
    label: int
    prediction: int
    radius: float
    seconds: float
    samples: int | None = None
    counts: Mapping[int, int] = field(default_factory=dict)
    """Votes of the classes that got any."""

    @property
    def correct(self) -> bool:
        return self.prediction == self.label and self.prediction != ABSTAIN


@dataclass(frozen=True)
class Certificates:
    """The rows of one certificate file and how they were made, as far as that is known."""

    name: str
    rows: Sequence[Row]
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sigma(self) -> float | None:
        return self.header.get("sigma")

    @property
    def certifier(self) -> str | None:
        return self.header.get("procedure")

    @property
    def parameters(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.header.get("parameters", {})
        return found

    @property
    def failure(self) -> float | None:
        """The probability that a certificate is wrong, where the header states it."""
        return self.parameters.get("failure")


class CertificateFile:
    """A certificate file that is being made: opening one makes it, or continues it where it stopped."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.header: dict[str, Any] = json.loads(json.dumps(header))
        self._claim()
        self._repair()

    def rows(self) -> list[Row]:
        """The certificates so far."""
        return _rows(self.path, self.path.read_text(errors="replace"))

    def append(self, row: Row) -> None:
        """Add a certificate, the whole line in one write, so that a kill leaves whole lines."""
        files.append(self.path, (_line(row) + "\n").encode())

    def _claim(self) -> None:
        beside = header_file(self.path)
        if beside.is_file():
            if difference := _difference(_header(beside), self.header):
                raise ValueError(f"{self.path} was made with {difference}: name another file, or move this one away")
        elif self.path.is_file():
            raise ValueError(f"{self.path} has no {beside.name} beside it that says how it was made: move it away")
        else:
            files.make_folder(self.path.parent)
            files.write_json(beside, self.header)

    def _repair(self) -> None:
        """Cut a line that a kill or a full disk left half written."""
        content = self.path.read_bytes() if self.path.is_file() else b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines(keepends=True)
        if not lines:
            files.write(self.path, "\t".join(COLUMNS) + "\n")
            return
        if tuple(lines[0].decode(errors="replace").split()) != COLUMNS:
            raise ValueError(f"{self.path} has not the columns {' '.join(COLUMNS)}: move it away")
        if len(lines) > 1 and not _readable(self.path, lines[-1].decode(errors="replace")):
            whole = whole[: -len(lines[-1])]
        if whole != content:
            files.truncate(self.path, len(whole))


def header(
    run: Run, *, certifier: str, parameters: Mapping[str, Any], noise: Mapping[str, Any], **facts: Any
) -> dict[str, Any]:
    """All that decides the certificates of a run; `facts` are seed, images, every, most, engine and the like."""
    recipe = run.recipe
    return {
        "procedure": certifier,
        "parameters": json.loads(json.dumps(parameters)),
        "noise": dict(noise),
        "weights": files.digest(run.weights()),
        "dataset": recipe.dataset["name"],
        "split": "test",
        "sigma": recipe.sigma,
        **facts,
    }


def engine_of(run: Run, wanted: Mapping[str, Any]) -> str | None:
    """The engine that the same certificates were begun with, if they were; code of others is not taken up."""
    engines = [str(other["engine"]) for _, other in _alike(run, wanted, but="engine")]
    trust.require(engines[:1], run.trusted, run.path)
    return engines[0] if engines else None


@contextmanager
def open_file(run: Run, wanted: Mapping[str, Any]) -> Iterator[CertificateFile]:
    """The certificate file of a run for this header, made or continued; another seed for the same is refused.

    While it is open, nobody else can open it.
    """
    for path, other in _alike(run, wanted, but="seed"):
        # Seeds tried until an image certifies would void the guarantee.
        if other["seed"] != wanted["seed"]:
            raise RunError(
                f"{path} holds these under seed {other['seed']}, not {wanted['seed']}: "
                "a seed is named before looking; continue with that one"
            )
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:8]
    name = wanted["procedure"].replace(":", "-")
    path = run.certificates / f"{name}-{digest}.tsv"
    files.make_folder(path.parent)
    with locked(path):
        files.sweep(path.parent, [path.name, header_file(path).name])
        yield CertificateFile(path, wanted)


def _alike(run: Run, wanted: Mapping[str, Any], but: str) -> list[tuple[Path, dict[str, Any]]]:
    """The certificate files of a run that were made like this one, whatever their value of one field."""
    found = [(path.with_suffix(".tsv"), _header(path)) for path in run.certificates.glob("*.json")]
    return [(path, other) for path, other in sorted(found) if {**other, but: None} == {**wanted, but: None}]


def read(path: Path) -> Certificates:
    """Read a certificate file in Cohen's columns, whoever made it."""
    name = path.name.removesuffix(".tsv")
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ValueError(f"cannot read the certificate file {path}: {error.strerror}") from error
    if header_file(path).is_file():
        header = _header(header_file(path))
        text = text[: text.rfind("\n") + 1]
    else:
        sigma = _sigma_in(path)
        header = {} if sigma is None else {"sigma": sigma}
    rows = _rows(path, text)
    if not rows:
        raise ValueError(f"{path} holds no certificates; `radii certify` makes and continues such files")
    return Certificates(name, rows, header)


def header_file(path: Path) -> Path:
    """The JSON beside a certificate file."""
    return path.with_name(path.name.removesuffix(".tsv") + ".json")


def _header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): restore it, or move it and its certificates away") from error
    if not isinstance(header, dict):
        raise ValueError(f"{path} holds no JSON object: restore it, or move it and its certificates away")
    return header


def _difference(theirs: Mapping[str, Any], wanted: Mapping[str, Any], table: str = "") -> str:
    for key in sorted(theirs.keys() | wanted.keys()):
        a, b = theirs.get(key), wanted.get(key)
        if a != b and isinstance(a, dict) and isinstance(b, dict):
            return _difference(a, b, f"{table}{key}.")
        if a != b:
            return f"{table}{key} = {a!r}, not {b!r}"
    return ""


def _line(row: Row) -> str:
    counts = " ".join(f"{label}:{count}" for label, count in sorted(row.counts.items()) if count)
    samples = "" if row.samples is None else str(row.samples)
    # repr of a plain float: full precision, so no radius is ever rounded up.
    radius, seconds = repr(float(row.radius)), repr(float(row.seconds))
    return "\t".join(
        map(str, (row.index, row.label, row.prediction, radius, int(row.correct), seconds, samples, counts))
    )


def _rows(path: Path, text: str) -> list[Row]:
    first, *lines = text.splitlines() or [""]
    columns = [name.strip() for name in first.split("\t")]
    if missing := [name for name in COHEN if name not in columns]:
        raise ValueError(f"{path} has no column {missing[0]!r}, expected the tab-separated columns {' '.join(COHEN)}")
    rows, seen = [], set[int]()
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        row = _row(f"{path}, line {number}", columns, line)
        if row.index in seen:
            raise ValueError(f"{path}, line {number}: image {row.index} is there twice: remove one of the two lines")
        seen.add(row.index)
        rows.append(row)
    return rows


def _row(where: str, columns: Sequence[str], line: str) -> Row:
    cells = line.split("\t")
    if len(cells) != len(columns):
        raise ValueError(f"{where} has {len(cells)} cells, expected {len(columns)}: {' '.join(columns)}")
    found = dict(zip(columns, cells, strict=True))
    try:
        row = Row(
            int(found["idx"]),
            int(found["label"]),
            int(found["predict"]),
            float(found["radius"]),
            _seconds(found["time"]),
            int(found["samples"]) if found.get("samples", "").strip() else None,
            {int(label): int(count) for label, _, count in (p.partition(":") for p in found.get("counts", "").split())},
        )
        correct = bool(int(found["correct"]))
    except ValueError as error:
        raise ValueError(f"{where} is not a certificate ({error}), expected {' '.join(columns)}") from error
    if not (math.isfinite(row.radius) and row.radius >= 0):
        raise ValueError(f"{where} has radius {row.radius}, expected a finite number >= 0")
    if correct != row.correct:
        raise ValueError(f"{where} says correct {int(correct)} of label {row.label} and prediction {row.prediction}")
    return row


def _readable(path: Path, line: str) -> bool:
    try:
        _row(str(path), COLUMNS, line.rstrip("\n"))
    except ValueError:
        return False
    return True


def _seconds(text: str) -> float:
    """Seconds of a plain number or of Python's `1 day, 0:00:14.649345`."""
    days, comma, clock = text.rpartition(",")
    parts = [float(part) for part in clock.split(":")]
    if len(parts) not in (1, 3):
        raise ValueError(f"time {text!r}")
    hours, minutes, seconds = parts if len(parts) == 3 else (0.0, 0.0, parts[0])
    return 86_400 * int(days.split()[0] if comma else 0) + 3600 * hours + 60 * minutes + seconds


def _sigma_in(path: Path) -> float | None:
    """The noise that a foreign file's name tells of, or else that of a folder it lies in."""
    for part in reversed(path.parts):
        if found := re.search(r"(?:sigma|noise)[-_=]?(\d+(?:\.\d+)?)", part, re.IGNORECASE):
            return float(found[1])
    return None
