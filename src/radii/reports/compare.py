"""Compare runs: accuracy without noise, certified and attacked accuracy, and the cost of an answer."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from radii.reports import protocol
from radii.reports.attacks import attacked_accuracy, largest_attack
from radii.reports.costs import AnswerCost, answer_cost, milliseconds, share_in_words
from radii.reports.inputs import Entry, ReportedRun, certify_command, present_certificates
from radii.reports.metrics import Share, Summary, Value, paired_differences, without_noise
from radii.reports.tables import Table, html, terminal, text_table
from radii.reports.text import UNKNOWN, down, radius_text, rounded_down, up
from radii.runs.certificates import Certificates
from radii.runs.repeats import repeats_note
from radii.runs.run import Run, RunError
from radii.smoothing.norms import L2

T = TypeVar("T")


@dataclass(frozen=True)
class ComparedRun:
    """A run in a comparison, and the certificate file that it is compared by."""

    run: ReportedRun
    summary: Summary
    others: Sequence[Certificates] = ()
    """The run's certificate files of the same weights, this one among them."""

    @property
    def name(self) -> str:
        return str(self.run.path)

    @property
    def norm(self) -> str:
        """The norm of the radii."""
        return protocol.norm_name(self.summary.certificates)

    @property
    def without_noise(self) -> Share | None:
        """How many test images the network alone gets right; None if that was not measured."""
        return without_noise(self.run)

    @property
    def cost(self) -> AnswerCost | None:
        """The mean cost of an answer on the machine that certified; None if it is not recorded."""
        return answer_cost(self.summary)

    @property
    def unfinished(self) -> str:
        """A sentence on the images that have no certificate yet."""
        missing = self.summary.certificates.missing
        return f"The certificates of {self.name} are not finished: {missing:,} images are missing."

    def certified(self, radius: float) -> Share:
        """Count the images that are certified and right at a radius; if it was not tested, at the next larger one."""
        return self.summary.at(radius)

    def attacked(self, radius: float) -> Share | None:
        """Count the images that stayed right under the largest attack; None if it did not try this length."""
        attack = largest_attack(Entry(self.name, self.summary, self.run))
        if attack is None or radius not in attack.attack.header["radii"]:
            return None
        return attacked_accuracy(attack.attack, radius)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs side by side; `print` and notebooks show a table."""

    runs: Sequence[ComparedRun]
    radii: Sequence[float]

    def accuracy(self, radius: float, run: int = -1) -> float:
        """Return the certified accuracy of a run, by default the last; raise a ValueError if it was not tested.

        The radius is in the norm of that run's noise.
        """
        return self.accuracy_for(radius, 2.0, run)

    def reaches(self, share: float, radius: float, run: int = -1) -> bool:
        """Return whether a run, by default the last, has this certified accuracy; a larger radius may prove it too."""
        return self.accuracy_for(radius, share, run) >= share

    def accuracy_for(self, radius: float, enough: float, run: int = -1) -> float:
        """Return the certified accuracy at a radius, or a bound of at least `enough`; otherwise raise a ValueError."""
        compared = self.runs[run]
        if compared.summary.certificates.missing:
            raise ValueError(f"{compared.unfinished} Finish them with the command that began them.")
        known = compared.summary.known(radius)
        if known is None or (not known.exact and known.value < enough):
            tested = ", ".join(f"{value:g}" for value in compared.summary.tested_radii or ())
            raise ValueError(
                f"radius {radius:g} was not tested for {compared.name}, only {tested}. Certify it with that radius too."
            )
        return known.value

    @property
    def notes(self) -> list[str]:
        """How the certifications differ, or two runs that were certified alike; then repeated certifications."""
        files = [compared.summary.certificates for compared in self.runs]
        notes = [f"{note}." for note in protocol.differences(files)]
        notes += [compared.unfinished for compared in self.runs if compared.summary.certificates.missing]
        if len(set(map(_noise, files))) > 1:
            notes.append("The noises differ in their parameters.")
        if len(self.runs) == 2 and not notes:
            notes += self._differences()
        return [*notes, *self._repeats()]

    def _differences(self) -> list[str]:
        first, last = self.runs
        differences = paired_differences(last.summary, first.summary, list(self.radii))
        return [
            f"{last.name} minus {first.name} at radius {radius_text(radius)}, image by image: "
            f"{100 * difference.value:+.1f} ({100 * difference.lower:+.1f} to {100 * difference.upper:+.1f}) points."
            for radius, difference in zip(self.radii, differences, strict=True)
            if difference is not None
        ]

    def _repeats(self) -> list[str]:
        """Say how often images were certified with other settings: each time is another chance of a false radius."""
        notes = [
            repeats_note(compared.summary.certificates, compared.others, f"Images of {compared.name}")
            for compared in self.runs
        ]
        return [f"{note}." for note in notes if note]

    def table(self) -> Table:
        """Return a table with a row per measure and a column per run, in per cent with 95 % intervals."""
        files = [compared.summary.certificates for compared in self.runs]
        lines = {"sigma": [_sigma(file) for file in files]}
        if protocol.norm_names(files) != L2.name:
            lines["radii in"] = [protocol.norm_name(file) for file in files]
        if any(map(protocol.label_known, files)):
            lines["label"] = ["known" if protocol.label_known(file) else "not known" for file in files]
        lines["right without noise"] = [_known(compared.without_noise, share_in_words) for compared in self.runs]
        for radius in self.radii:
            title = "smoothed accuracy (radius 0)" if radius == 0 else f"certified at {radius_text(radius)}"
            lines[title] = [_certified(compared.summary, radius) for compared in self.runs]
        for radius in self.radii:
            shares = [compared.attacked(radius) for compared in self.runs]
            if any(shares):
                title = f"under attack at {radius_text(radius)}, at most"
                lines[title] = [_known(share, _upper_bound) for share in shares]
        lines["images certified"] = [f"{compared.summary.images:,}" for compared in self.runs]
        costs = [compared.cost for compared in self.runs]
        lines["an answer"] = [_known(cost, str) for cost in costs]
        lines["one copy alone"] = [
            _known(cost, lambda cost: milliseconds(cost.milliseconds / cost.copies)) for cost in costs
        ]
        rows = [[title, *texts] for title, texts in lines.items()]
        return text_table(["", *(compared.name for compared in self.runs)], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data, shares rounded down."""
        return {"runs": [_as_data(compared, self.radii) for compared in self.runs], "notes": self.notes}

    def __repr__(self) -> str:
        return f"{terminal(self.table())}{''.join(f'{note}{chr(10)}' for note in self.notes)}".rstrip("\n")

    def _repr_html_(self) -> str:
        return html(self.table()) + "".join(f"<p>{note}</p>" for note in self.notes)


def compare(*runs: Run | Path | str, radii: Sequence[float] = (), sigma: float | None = None) -> Comparison:
    """Compare certified runs by files of the same protocol if possible, and of noise `sigma` if it is given.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> from radii.certification.certify import CertificationConfig, certify_run
    >>> from radii.certifiers.sequential import Sequential
    >>> config = CertificationConfig(run=run.path, certifier=Sequential(radii=(0, 0.25)), every=150)
    >>> _ = certify_run(config, workers=1)
    >>> radii.compare(run).radii
    (0.0, 0.25)
    """
    if not runs:
        raise ValueError("There is nothing to compare. Name one or more runs.")
    opened = [ReportedRun(run.path, run.trusted) if isinstance(run, Run) else ReportedRun(Path(run)) for run in runs]
    files = [_own_files(run) for run in opened]
    matching = [_matching(run, own, sigma) for run, own in zip(opened, files, strict=True)]
    summaries = [Summary(file) for file in _choose_files(matching)]
    tested = {radius for summary in summaries for radius in summary.tested_radii or ()}
    unit = summaries[-1].certificates.sigma or 0.25
    shown = tuple(sorted(set(map(float, radii)) or tested or {0.0, unit, 2 * unit}))
    return Comparison([*map(ComparedRun, opened, summaries, files)], shown)


def _own_files(run: Run) -> list[Certificates]:
    """Read the certificate files of a run's present weights and own test images."""
    own = [file for file in present_certificates(run) if not protocol.evaluated_on(file)]
    if not own:
        raise RunError(f"{run.path} has no certificates. Make them with `{certify_command(run)}`.")
    return own


def _matching(run: Run, own: Sequence[Certificates], sigma: float | None) -> list[Certificates]:
    """Return the files of noise `sigma`, or all of them.

    Files at the recipe's sigma come first, then finished ones, then those with the most rows.
    """
    matching = [file for file in own if sigma is None or file.sigma == sigma]
    if not matching:
        others = ", ".join(sorted({_sigma(file) for file in own}))
        raise RunError(f"{run.path} has no certificates at sigma {sigma:g}, only at {others}. Certify it at that too.")
    trained = run.stated_recipe().sigma
    return sorted(matching, key=lambda file: (file.sigma == trained, not file.missing, len(file.rows)), reverse=True)


def _choose_files(files: Sequence[Sequence[Certificates]]) -> list[Certificates]:
    """Choose one file per run: of the same protocol if possible, else of the same noise, else the first."""
    for key_of in (_protocol, _noise):
        by_key = [{key_of(file): file for file in reversed(of_run)} for of_run in files]
        for key in map(key_of, files[-1]):
            if all(key in of_run for of_run in by_key):
                return [of_run[key] for of_run in by_key]
    return [of_run[0] for of_run in files]


def _noise(file: Certificates) -> Hashable:
    return json.dumps(dict(file.noise), sort_keys=True)


def _protocol(file: Certificates) -> Hashable:
    stated = {key: file.header.get(key) for key in ("procedure", "parameters", "every", "most", "label_known")}
    return _noise(file), len(file.rows), json.dumps(stated, sort_keys=True)


def _sigma(file: Certificates) -> str:
    return UNKNOWN if file.sigma is None else f"{file.sigma:g}"


def _known(value: T | None, write: Callable[[T], str]) -> str:
    return UNKNOWN if value is None else write(value)


def _upper_bound(share: Share) -> str:
    return f"{up(share.value, 1, 2)} % of {share.images:,}"


def _certified(summary: Summary, radius: float) -> str:
    if summary.decided(radius):
        return share_in_words(summary.at(radius), summary.certificates.failure or 0.0)
    return _known(summary.known(radius), lambda known: f"at least {down(known.value, 1, 2)} %")


def _as_data(compared: ComparedRun, radii: Sequence[float]) -> dict[str, Any]:
    plain, cost, summary = compared.without_noise, compared.cost, compared.summary
    attacked = {radius: share for radius in radii if (share := compared.attacked(radius))}
    certified = {radius: known for radius in radii if (known := summary.known(radius))}
    return {
        "run": compared.name,
        "sigma": summary.certificates.sigma,
        "noise": dict(summary.certificates.noise),
        "norm": compared.norm,
        "certifier": summary.certificates.certifier,
        "label_known": protocol.label_known(summary.certificates),
        "without_noise": None if plain is None else rounded_down(plain.value),
        "images": summary.images,
        "certified_accuracy": _shares(certified, exact=True),
        "certified_accuracy_at_least": _shares(certified, exact=False),
        "attacked_accuracy": {f"{radius:g}": float(up(share.value, 4)) for radius, share in attacked.items()},
        "answer": cost and cost._asdict(),
    }


def _shares(known: Mapping[float, Value], *, exact: bool) -> dict[str, float]:
    """Return the shares at radii that were tested, or the bounds that larger radii prove at others, rounded down."""
    return {f"{radius:g}": rounded_down(share.value) for radius, share in known.items() if share.exact == exact}
