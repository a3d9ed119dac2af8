"""Results of certify_dataset: the certificates of a dataset, with accuracy, ACR and report."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from radii import disk
from radii.disk import locked
from radii.reports.metrics import Summary, in_words
from radii.reports.report import report as write_report
from radii.runs.certificates import CertificateFile, Certificates, Row


@dataclass(frozen=True, repr=False)
class Results:
    """Certificates of the images of a dataset; shares are of all images, abstentions included."""

    certificates: Certificates
    path: Path | None = None
    """The certificate file, if one was named."""

    def __repr__(self) -> str:
        return f"Results({in_words(self._summary)})"

    @property
    def rows(self) -> Sequence[Row]:
        """One row for each image: index, label, prediction, radius, samples, counts and a digest."""
        return self.certificates.rows

    def accuracy(self, radius: float) -> float:
        """Return the share of images whose label is certified at this radius."""
        return self._at(radius).at(radius).value

    def interval(self, radius: float) -> tuple[float, float]:
        """Return the exact 95 % interval of the certified accuracy over the choice of images (Clopper & Pearson).

        Its lower end allows for the certificates' own probability of failure.
        """
        return self._at(radius).interval(radius)

    @property
    def acr(self) -> float:
        """The average certified radius; a lower bound if the certifier tested given radii only."""
        return self._summary.acr

    def report(self, folder: Path | str) -> Path:
        """Write tables, curves and a page to a folder; returns the page.

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
            raise ValueError(f"radius {radius} was not tested, expected one of {tested}: certify with that radius too")
        return summary

    def _write(self, path: Path) -> Path:
        disk.make_folder(path.parent)
        with locked(path):
            file = CertificateFile(path, self.certificates.header)
            done = {row.index for row in file.rows()}
            for row in self.rows:
                if row.index not in done:
                    file.append(row)
        return path
