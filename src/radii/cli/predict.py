"""The command that asks a run about pictures."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from radii.cli.app import STDIN, app, console, in_words, printed_warnings, say, say_json
from radii.cli.arguments import Json, Settings, Trust, parse_fields
from radii.cli.progress import CountingBar
from radii.reports.summary import down
from radii.runs.recipe import fields_of
from radii.runs.run import Run

if TYPE_CHECKING:
    from torch import Tensor

    from radii.smoothing.certificate import Certificate
    from radii.smoothing.classifier import SmoothedClassifier

ESTIMATION = 1_000
"""Samples of a picture by default. A hundred times as many, as certificates of test sets have, give radii that are
about a sixth larger."""
BLOCK = 128
"""Noisy copies of one forward pass."""
CLASS_ONLY = "prediction"
"""The certifier that proves the class alone."""


@app.command
def predict(
    run: Path,
    /,
    *pictures: Annotated[str, Parameter(json_list=False)],
    with_: Annotated[str | None, Parameter(name="--with")] = None,
    radii: str | None = None,
    engine: str = "auto",
    json: Json = False,
    set: Settings = None,
    trust: Trust = None,
) -> None:
    """Predict the class of pictures, with the votes and the certified radius: one line each.

    Pictures are prepared as the test pictures of the run were. The noise is fresh and secret. Exit code 0: all were
    answered; 1: the model abstained from some, or some could not be read; 2: nothing could be asked.

    Args:
        run: A trained run directory.
        pictures: Picture files, folders of them, or - for a list of paths from stdin.
        with_: The certifier: fixed with 1,000 samples by default, or soft where only that was certified; sequential
            with --radii; prediction for the class alone.
        radii: Radii to certify, such as 0.25,0.5, for a certifier that takes them.
        engine: What runs the forward passes; auto takes the one that the model was certified with.
    """
    from radii.training.weights import model_spec

    trained = Run(run, trust or ())
    spec = model_spec(trained)
    found = _files(pictures)
    with printed_warnings(), CountingBar(console) as bar:
        asking = _Asking(trained, spec.shape, with_, parse_fields(set, radii), engine)
        answered = 0
        for number, file in enumerate(found, start=1):
            answered += _answer(asking, file, spec.class_names, json)
            bar(number, len(found))
    raise SystemExit(0 if answered == len(found) else 1)


class _Asking:
    """A run that is asked about one picture after the other; it is loaded for the first that can be read."""

    def __init__(
        self, run: Run, shape: tuple[int, int, int], with_: str | None, fields: dict[str, Any], engine: str
    ) -> None:
        from radii import certifiers, datasets
        from radii.certification.deployment import certified_prediction

        dataset = run.recipe.dataset
        self.run, self.asked = run, engine
        self.preparation = datasets.preparation(dataset["name"], fields_of(dataset), shape)
        self.procedure, usual = _usual(*certified_prediction(run, with_), with_)
        self.fields = {**usual, **fields}
        certifiers.create(self.procedure, **self.fields)  # wrong fields are an error before the model is loaded
        self.described = False

    @cached_property
    def loaded(self) -> tuple[str, "SmoothedClassifier"]:
        """The engine and the classifier."""
        from radii.certification.deployment import warn_of_another
        from radii.certification.load import noise_of, open_run

        found = open_run(self.run, self.asked, noise_of(self.run.recipe), None, BLOCK, data_at_hand=False)
        warn_of_another(self.run, found[0])
        return found

    @property
    def engine(self) -> str:
        return self.loaded[0]

    def about(self, picture: "Tensor") -> "Certificate":
        from radii.certification.images import certify

        self._describe()
        return certify(self.loaded[1], picture, self.procedure, **self.fields)

    def _describe(self) -> None:
        """Say once what is done to the pictures."""
        if not self.described and not console.quiet:
            print(f"radii: pictures are prepared as the test pictures: {self.preparation.words}", file=sys.stderr)
        self.described = True


def _usual(procedure: str, fields: dict[str, Any], asked: str | None) -> tuple[str, dict[str, Any]]:
    """The certifier and its fields, where the user states none: one that certifies a radius."""
    if asked is None and procedure == CLASS_ONLY:
        procedure = "fixed"
    return procedure, {"estimation": ESTIMATION} if procedure == "fixed" else fields


def _files(pictures: Sequence[str]) -> list[Path]:
    """The pictures that are named, and those in the folders that are named; one without any stands for itself."""
    from radii.datasets import pictures_in

    if not pictures:
        raise ValueError("name pictures, folders of them, or - for a list of paths from stdin")
    paths = [path for picture in pictures for path in (_from_stdin() if picture == STDIN else [Path(picture)])]
    return [file for path in paths for file in (path.is_dir() and pictures_in(path)) or [path]]


def _from_stdin() -> Iterator[Path]:
    return (Path(line.rstrip("\n")) for line in sys.stdin if line.strip())


def _existing(file: Path) -> Path:
    if not file.is_file():
        what = "holds no pictures" if file.is_dir() else "is not there"
        raise ValueError(f"{file} {what}: name pictures, or folders of them")
    return file


def _answer(asking: _Asking, file: Path, names: Sequence[str], as_json: bool) -> bool:
    """Print the answer about a picture; whether it is one."""
    try:
        picture = asking.preparation.read(_existing(file))
    except (ValueError, OSError) as error:
        words = in_words(error)
        print(f"radii: {words}", file=sys.stderr)
        if as_json:
            say_json({"file": str(file), "error": words})
        return False
    found = asking.about(picture)
    if as_json:
        say_json(_as_data(asking, file, names, found))
    else:
        say(f"{file}: {_as_text(asking, names, found)}")
    return found.prediction >= 0


def _as_text(asking: _Asking, names: Sequence[str], found: "Certificate") -> str:
    classifier = found.certifier
    failure = getattr(classifier, "failure", None)
    parts = ["abstains"] if found.prediction < 0 else [names[found.prediction]]
    if found.prediction >= 0 and asking.procedure != CLASS_ONLY:
        parts.append(f"radius {down(found.radius, 4)}")
    if drawn := sum(found.counts):
        top = max(range(len(found.counts)), key=found.counts.__getitem__)
        votes = f"{found.counts[top]:,} of {drawn:,} votes"
        parts.append(votes if top == found.prediction else f"{votes} for {names[top]}")
    return ", ".join([*parts, f"failure {failure:g}", f"engine {asking.engine}"])


def _as_data(asking: _Asking, file: Path, names: Sequence[str], found: "Certificate") -> dict[str, Any]:
    answered = found.prediction >= 0
    return {
        "file": str(file),
        "class": names[found.prediction] if answered else None,
        "label": found.prediction if answered else None,
        "radius": found.radius if answered and asking.procedure != CLASS_ONLY else None,
        "votes": {names[label]: count for label, count in enumerate(found.counts) if count},
        "samples": found.samples,
        "certifier": asking.procedure,
        "parameters": asdict(found.certifier) if found.certifier else {},
        "noise": asking.loaded[1].noise.describe(),
        "engine": asking.engine,
        "prepared": asking.preparation.words,
    }
