"""Certificate files: one line for each image, Cohen's columns first, and a JSON header beside the file.

The header states how the certificates were made. Each line has a checksum over the line and the checksum of the line
before it, the first line over the header; each environment over itself, the environment before it and the line before
its first row. So edited, removed or exchanged lines and edited headers are detected. This finds accidents; `radii
verify` finds the rest.
"""

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radii.runs import readers
from radii.runs.function import DEVICE, FUNCTION, function_difference, tolerance
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.norms import L2, L2_NOISES, Norm, norm_of

FORMAT = 2
"""The format of new files. Files of version 0.1 state none, and have neither digests nor checksums."""
COHEN = ("idx", "label", "predict", "radius", "correct", "time")
COLUMNS = (*COHEN, "samples", "counts", "digest", "checksum")
LONG_CELL = 256
"""Characters of a cell whose counts stay text."""
PLAIN_COUNTS = re.compile(r"[0-9]{1,15}:[0-9]{1,15}(?: [0-9]{1,15}:[0-9]{1,15})*")
ENVIRONMENTS = "environments"
"""The field of a header that affects rounding only. It grows when a file is continued on another machine."""
KIND, POPULATION = "kind", "population"
"""The field that marks the header of a proof about a population, and its value."""
POLYNOMIALS = "polynomials"
"""The field of such a header with the polynomials. They are computed once, when the file is created."""
FIRST_ROW, CHECKSUM = "first_row", "checksum"
"""The fields of an environment that are not its description. Older files have no checksums of environments."""


class Counts(Mapping[int, int]):
    """Votes by class, kept as the text of the cell: for 1,000 classes a dict would take ten times the memory."""

    __slots__ = ("_cell",)

    def __init__(self, cell: str) -> None:
        self._cell = cell

    def __getitem__(self, label: int) -> int:
        return self._votes()[label]

    def __iter__(self) -> Iterator[int]:
        return iter(self._votes())

    def __len__(self) -> int:
        return len(self._votes())

    def __repr__(self) -> str:
        return repr(self._votes())

    def items(self) -> ItemsView[int, int]:
        return self._votes().items()

    def values(self) -> ValuesView[int]:
        return self._votes().values()

    def _votes(self) -> dict[int, int]:
        return {int(label): int(count) for label, _, count in (pair.partition(":") for pair in self._cell.split())}


@dataclass(frozen=True)
class Row:
    """The certificate of one image, and its true label."""

    index: int
    label: int
    prediction: int
    radius: float
    seconds: float
    samples: int | None = None
    counts: Mapping[int, int] = field(default_factory=dict)
    """Votes by class, without classes that got none."""
    digest: str = ""
    """Digest of the image's pixels and its label; empty in files of other tools and of version 0.1."""
    environments: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    """The environments that computed it; not part of its line."""

    @property
    def correct(self) -> bool:
        return self.prediction == self.label and self.prediction != ABSTAIN


OnImage = Callable[[int, Row | None], None]
"""Called with the number of images and each row, and once with None before the first row."""


@dataclass(frozen=True)
class Certificates:
    """The rows of one certificate file, and its header as far as it is known."""

    name: str
    rows: Sequence[Row]
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sigma(self) -> float | None:
        """The noise's sigma, which may differ from the one in the run's recipe; None if the noise has none."""
        return self.noise.get("sigma")

    @property
    def noise(self) -> Mapping[str, Any]:
        """The noise's name and parameters; files without it were made with Gaussian noise."""
        noise: Mapping[str, Any] | None = self.header.get("noise")
        return noise or {"name": "gaussian", "sigma": self.header.get("sigma")}

    @property
    def norm(self) -> Norm | None:
        """The norm of the radii; None if the noise is not one of the package and the header does not state it."""
        if self.noise.get("name", "gaussian") in L2_NOISES:
            return L2
        name = self.header.get("norm")
        return None if name is None else norm_of(name)

    @property
    def certifier(self) -> str | None:
        return self.header.get("procedure")

    @property
    def parameters(self) -> Mapping[str, Any]:
        parameters: Mapping[str, Any] = self.header.get("parameters", {})
        return parameters

    @property
    def missing(self) -> int:
        """How many images have no row yet; 0 if the header does not state which images were chosen."""
        if not {"images", "every"} <= self.header.keys():
            return 0
        chosen = range(0, self.header["images"], self.header["every"])[: self.header.get("most")]
        return max(0, len(chosen) - len(self.rows))

    @property
    def failure(self) -> float | None:
        """The probability that a certificate is wrong, where the header states it."""
        return self.parameters.get("failure")


# Headers


def header_file(path: Path) -> Path:
    """Return the path of the JSON header of a certificate file."""
    return path.with_name(path.name.removesuffix(".tsv") + ".json")


def read_header(path: Path) -> dict[str, Any]:
    """Read and check the JSON header at `path`."""
    return readers.header(path)


def identity(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a header that determines the rows: all but environments, function and polynomials."""
    return {key: value for key, value in header.items() if key not in (ENVIRONMENTS, FUNCTION, POLYNOMIALS)}


def described(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of an environment, without its first row and its checksum."""
    return {key: value for key, value in environment.items() if key not in (FIRST_ROW, CHECKSUM)}


def same_environment(recorded: Mapping[str, Any], environment: Mapping[str, Any]) -> bool:
    """Return whether an environment agrees with a recorded one; older files recorded fewer fields."""
    return all(environment.get(key) == value for key, value in described(recorded).items())


def with_checksum(environment: Mapping[str, Any], line: str, earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an environment with its checksum; `line` is the checksum of the header or of the line before it."""
    previous = earlier[-1].get(CHECKSUM, "") if earlier else ""
    return {**environment, CHECKSUM: _environment_checksum(environment, line, previous)}


def _environment_checksum(environment: Mapping[str, Any], line: str, previous: str) -> str:
    content = {key: value for key, value in environment.items() if key != CHECKSUM}
    return checksum(json.dumps(content, sort_keys=True), f"{line} {previous}")


def check_environments(path: Path, header: Mapping[str, Any], text: str) -> None:
    """Raise a ValueError for an edited environment; one that begins after the last line is not checked."""
    lines = [first_checksum(header), *(line.rpartition("\t")[2] for line in text.splitlines()[1:] if line.strip())]
    previous = ""
    for environment in header.get(ENVIRONMENTS, []):
        recorded, first = environment.get(CHECKSUM), environment[FIRST_ROW]
        if first < 0 or (recorded is None and previous):
            raise ValueError(_edited_environment(path, first))
        checked = recorded is not None and first < len(lines)
        if checked and recorded != _environment_checksum(environment, lines[first], previous):
            raise ValueError(_edited_environment(path, first))
        previous = recorded or ""


def _edited_environment(path: Path, first: int) -> str:
    return (
        f"{header_file(path)}: the environment from row {first} on does not match its checksum: it was edited. "
        "Restore the file, or certify again."
    )


def recorded_difference(
    header: Mapping[str, Any], function: Mapping[str, Any], environment: Mapping[str, Any] | None
) -> str:
    """Describe how the function in a header differs from one in this environment; empty if it does not."""
    first = [recorded for recorded in header.get(ENVIRONMENTS, []) if recorded[FIRST_ROW] == 0]
    same = environment is not None and any(same_environment(recorded, environment) for recorded in first)
    same = same and header.get(FUNCTION, {}).get(DEVICE) == function.get(DEVICE)
    on_cpus = all(table.get("device", "cpu") == "cpu" for table in (header, environment or {}, *first))
    limit = tolerance(str(header.get("engine", "")), same, on_cpus)
    return function_difference(header.get(FUNCTION, {}), function, limit)


# Lines


def first_checksum(header: Mapping[str, Any]) -> str:
    """Return the checksum of the header without its environments; the checksum of the first line builds on it."""
    constant = {key: value for key, value in header.items() if key != ENVIRONMENTS}
    return hashlib.sha256(json.dumps(constant, sort_keys=True).encode()).hexdigest()[:16]


def checksum(line: str, previous: str) -> str:
    """Return the checksum of a line, given that of the previous line."""
    return hashlib.sha256(f"{previous}\t{line}".encode()).hexdigest()[:16]


def to_line(row: Row) -> str:
    """Format a row as a line without its checksum."""
    counts = " ".join(f"{label}:{count}" for label, count in sorted(row.counts.items()) if count)
    samples = "" if row.samples is None else str(row.samples)
    # repr of a plain float: full precision, so no radius is ever rounded up.
    radius, seconds = repr(float(row.radius)), repr(float(row.seconds))
    cells = (row.index, row.label, row.prediction, radius, int(row.correct), seconds, samples, counts, row.digest)
    return "\t".join(map(str, cells))


def to_text(header: Mapping[str, Any], rows: Iterable[Row]) -> str:
    """Format a whole certificate file."""
    lines, last = ["\t".join(COLUMNS)], first_checksum(header)
    for line in map(to_line, rows):
        last = checksum(line, last)
        lines.append(f"{line}\t{last}")
    return "\n".join(lines) + "\n"


def parse(path: Path, text: str, last: str | None = None) -> tuple[list[Row], str | None]:
    """Parse the text of a certificate file and return its rows and its last checksum.

    `last` is the checksum of the header. Without it the checksum of the first line is not checked.
    """
    first, *lines = text.splitlines() or [""]
    columns = tuple(name.strip() for name in first.split("\t"))
    if missing := [name for name in COHEN if name not in columns]:
        raise ValueError(
            f"{path} has no column {missing[0]!r}. Its columns must be {' '.join(COHEN)}, with tabs between."
        )
    rows: dict[int, Row] = {}
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        row = parse_line(where, columns, line)
        if row.index in rows:
            raise ValueError(f"{where}: image {row.index} occurs twice. Remove one of the two lines.")
        if columns == COLUMNS:
            content, _, recorded = line.rpartition("\t")
            if last is not None and recorded != checksum(content, last):
                raise ValueError(
                    f"{where} does not match its checksum: this line, the line before it or the header was edited, or "
                    "a line was removed. Restore the file, or certify again."
                )
            last = recorded
        rows[row.index] = row
    return list(rows.values()), last


def parse_line(where: str, columns: Sequence[str], line: str) -> Row:
    """Parse and check one line; `where` names it in errors."""
    if len(line) > readers.MOST_LINE:
        raise ValueError(f"{where} has {len(line)} characters, expected at most {readers.MOST_LINE}")
    cells = line.split("\t")
    if len(cells) != len(columns):
        raise ValueError(f"{where} has {len(cells)} cells, expected {len(columns)}: {readers.short(' '.join(columns))}")
    by_name = dict(zip(columns, cells, strict=True))
    try:
        row = _parse_cells(by_name)
        correct = bool(readers.whole(by_name["correct"]))
    except ValueError as error:
        problem, expected = readers.short(error), readers.short(" ".join(columns))
        raise ValueError(f"{where} is not a certificate ({problem}), expected {expected}") from error
    if not 0 <= row.radius <= readers.MOST_RADIUS:
        raise ValueError(f"{where} has radius {row.radius}, expected a number from 0 to {readers.MOST_RADIUS:g}")
    if not 0 <= (row.samples or 0) <= readers.MOST_SAMPLES:
        raise ValueError(f"{where} states {row.samples} samples, expected at most {readers.MOST_SAMPLES}")
    if correct != row.correct:
        raise ValueError(
            f"{where} states correct = {int(correct)}, but its label is {row.label} and its prediction {row.prediction}"
        )
    return row


def _parse_counts(cell: str) -> Mapping[int, int]:
    if len(cell) >= LONG_CELL and PLAIN_COUNTS.fullmatch(cell):
        return Counts(cell)
    pairs = (pair.partition(":") for pair in cell.split())
    return {readers.whole(label): readers.whole(count) for label, _, count in pairs}


def _parse_cells(cells: Mapping[str, str]) -> Row:
    return Row(
        readers.whole(cells["idx"]),
        readers.whole(cells["label"]),
        readers.whole(cells["predict"]),
        float(cells["radius"]),
        readers.seconds(cells["time"]),
        readers.whole(cells["samples"]) if cells.get("samples", "").strip() else None,
        _parse_counts(cells.get("counts", "")),
        cells.get("digest", ""),
    )


def accuracy_steps(certificates: Certificates) -> list[tuple[float, float]]:
    """Return the certified accuracy in per cent at radius 0 and at every radius where it falls; abstentions count."""
    proven = sorted(row.radius for row in certificates.rows if row.correct)
    radii = sorted({0.0, *proven})
    return [(radius, 100 * (len(proven) - bisect_left(proven, radius)) / len(certificates.rows)) for radius in radii]


# Reading files


def read(path: Path) -> Certificates:
    """Read a certificate file of any tool; if it has a header, check its lines against it."""
    try:
        text = _read_text(path)
    except OSError as error:
        raise ValueError(f"cannot read the certificate file {path}: {error.strerror}") from error
    if header_file(path).is_file():
        header = read_header(header_file(path))
        if header.get(KIND) == POPULATION:
            raise ValueError(f"{path} is a proof about a population, without certificates of images. Name its run.")
        rows = _checked_rows(path, text, header)
    else:
        sigma = _sigma_in(path)
        header = {} if sigma is None else {"sigma": sigma}
        rows = parse(path, text)[0]
    if not rows:
        raise ValueError(f"{path} holds no certificates. Continue it with `radii certify`.")
    return Certificates(path.name.removesuffix(".tsv"), rows, header)


def read_rows(path: Path, header: Mapping[str, Any]) -> list[Row]:
    """Read the rows of a certificate file with a header; return none if there is no file yet."""
    return _checked_rows(path, _read_text(path), header) if path.is_file() else []


def has_rows(path: Path) -> bool:
    """Return whether a certificate file has at least one whole row; only its first two lines are read."""
    if not path.is_file():  # a pipe would never end
        raise ValueError(f"{path} is not a file. Move it away.")
    with path.open("rb") as file:
        return all(file.readline(1 << 16).endswith(b"\n") for _ in range(2))


def _read_text(path: Path) -> str:
    return readers.text(path, readers.MOST_CERTIFICATES, "utf-8-sig", "replace")


def _checked_rows(path: Path, text: str, header: Mapping[str, Any]) -> list[Row]:
    """Parse the whole lines of a file with a header; a last line that a kill cut short is ignored."""
    text = text[: text.rfind("\n") + 1]
    if not text:
        return []
    if header.get("format", 1) >= FORMAT and tuple(text.split("\n", 1)[0].split("\t")) != COLUMNS:
        raise ValueError(f"{path} does not have the columns {' '.join(COLUMNS)}. Restore the file, or certify again.")
    rows = parse(path, text, first_checksum(header))[0]
    check_environments(path, header, text)
    return rows


def _sigma_in(path: Path) -> float | None:
    """Return the sigma in the name of a file from another tool, or of a folder above it."""
    for part in reversed(path.parts):
        if match := re.search(r"(?:sigma|noise)[-_=]?(\d+(?:\.\d+)?)", part, re.IGNORECASE):
            return float(match[1])
    return None
