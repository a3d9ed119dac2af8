"""Results of certify_dataset: the certificates of a dataset, with accuracy, ACR and report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from radii import disk, notebook
from radii.disk import locked
from radii.errors import MissingExtraError, ParameterError
from radii.reports import figures
from radii.reports.inputs import begun_files, certify_command
from radii.reports.metrics import Summary, in_words, radii_of, shown
from radii.reports.protocol import radius_title
from radii.reports.report import report as write_report
from radii.reports.text import UNKNOWN, percent_range, radius_text
from radii.runs import certificates
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Certificates, Row
from radii.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MOST_RADII = 8
"""The most radii in the table of a notebook."""


@dataclass(frozen=True, repr=False)
class Results:
    """The certificates of a dataset's images; shares are of all images, abstentions included."""

    certificates: Certificates
    path: Path | None = None
    """The certificate file, if one was named."""

    def __repr__(self) -> str:
        return f"Results({in_words(self._summary)})"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def rows(self) -> Sequence[Row]:
        """One row for each image, with its index, label, prediction, radius, samples, votes and digest."""
        return self.certificates.rows

    def accuracy(self, radius: float) -> float:
        """Return the share of images whose label is certified at this radius."""
        return self._at(radius).at(radius).value

    def interval(self, radius: float) -> tuple[float, float]:
        """Return the exact 95 % interval of the certified accuracy over the choice of images (Clopper & Pearson).

        Its lower end includes the failure probability of the certificates.
        """
        return self._at(radius).interval(radius)

    @property
    def acr(self) -> float:
        """The average certified radius; a lower bound if only some radii were tested."""
        return self._summary.acr

    def to_pandas(self) -> "DataFrame":
        """Return a DataFrame with a row for each image, by its index in the dataset; needs the extra `pandas`.

        An abstention has the prediction -1 and the radius 0.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise MissingExtraError("A DataFrame needs pandas, which is not installed.", "pandas") from error
        columns = ("label", "prediction", "radius", "correct", "samples", "seconds")
        frame = DataFrame([[getattr(row, name) for name in columns] for row in self.rows], columns=list(columns))
        frame.index = [row.index for row in self.rows]
        frame.index.name = "index"
        return frame

    def plot(self, ax: "Axes | None" = None, label: str | None = None) -> "Axes":
        """Draw the certified accuracy over the radius, with its 95 % interval; needs the extra `plot`.

        Several results can be drawn into the same axes `ax`, by default matplotlib's current ones.
        """
        return figures.plot(self._summary, ax, self.certificates.name if label is None else label)

    def _repr_html_(self) -> str:
        """Return a table and the curve for notebooks."""
        summary = self._summary
        rows = [
            (
                radius_text(radius),
                shown(summary.known(radius), 1, 2),
                percent_range(summary.interval(radius)) if summary.decided(radius) else UNKNOWN,
            )
            for radius in radii_of([summary], MOST_RADII)
        ]
        title = radius_title([self.certificates])
        table = notebook.table((title, "Certified accuracy, %", "95 % interval"), rows, in_words(summary))
        steps = certificates.accuracy_steps(self.certificates)
        return table + notebook.curves([("", steps)], f"certified accuracy, %, over the {title[0].lower()}{title[1:]}")

    def report(self, folder: Path | str) -> Path:
        """Write tables, figures and a page to a folder, and return the page.

        The certificates are written there too, unless they have a file.
        """
        return write_report([self.path or self._write(Path(folder) / "certificates.tsv")], folder)

    @property
    def _summary(self) -> Summary:
        return Summary(self.certificates)

    def _at(self, radius: float) -> Summary:
        summary = self._summary
        if isinstance(radius, bool) or not isinstance(radius, Real) or not radius >= 0:
            raise ValueError(f"radius = {radius!r}, expected a number >= 0")
        if not summary.decided(radius):
            tested = ", ".join(map(str, summary.tested_radii or ()))
            raise ValueError(f"radius {radius} was not tested, expected one of {tested}. Certify with that radius too.")
        return summary

    def _write(self, path: Path) -> Path:
        disk.make_folder(path.parent)
        with locked(path):
            file = CertificateFile(path, self.certificates.header)
            done = {row.index: row for row in file.rows()}
            for row in self.rows:
                if row.index not in done:
                    file.append(row)
                elif replace(done[row.index], seconds=row.seconds) != row:
                    raise ParameterError(
                        f"{path} holds other certificates of these images. Name another folder.", "folder"
                    )
        return path


def read_results(path: Path | str) -> Results:
    """Read a certificate file, by radii or with the columns of Cohen et al., or the only one of a run.

    >>> import os, radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> cells = [["idx", "label", "predict", "radius", "correct", "time"], ["0", "7", "7", "0.4", "1", "1.0"]]
    >>> _ = Path(f"{folder}/a.tsv").write_text(os.linesep.join(chr(9).join(line) for line in cells) + os.linesep)
    >>> radii.read_results(f"{folder}/a.tsv").accuracy(0.25)
    1.0
    """
    file = Path(path)
    if file.is_dir():
        file = _only_file(Run(file))
    return Results(certificates.read(file), file)


def _only_file(run: Run) -> Path:
    """Return the certificate file of a run; raise a ParameterError if there are several or none."""
    run.stated_recipe()  # raises if the folder is not a run
    files = begun_files(run)
    if not files:
        raise ParameterError(f"{run.path} holds no certificates. Make them with `{certify_command(run)}`.", "path")
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ParameterError(f"{run.path} has {len(files)} certificate files: {names}. Name one of them.", "path")
    return files[0]
