"""radii predict: predict the class of pictures, with certified radii."""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from radii.cli.app import STDIN, console, in_words, print_error, printed_warnings, say, say_json
from radii.cli.arguments import OPTIONS, BatchSize, Engine, Fields, Json, Switch, Trust, parse_fields
from radii.cli.estimates import announce_rest
from radii.cli.progress import CountingBar
from radii.reports.text import down
from radii.runs.recipe import fields_of, parse_value
from radii.runs.run import Run
from radii.smoothing.norms import L2

if TYPE_CHECKING:
    from torch import Tensor

    from radii.certification.one_pass import OnePassAnswer
    from radii.engines import SmoothedClassifier
    from radii.smoothing.certificate import Certificate

ESTIMATION = 1_000
"""Samples per picture by default. A hundred times as many, as for test sets, give radii about a sixth larger."""
CLASS_ONLY = "prediction"
"""The certifier that proves the class but no radius."""
OBJECTS_BETWEEN_COLLECTIONS = 500_000
"""More than torch, scipy and an engine make while they are imported."""


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Options:
    """What `radii predict` takes beside a run and pictures."""

    with_: Annotated[str | None, Parameter(name="--with")] = None
    """The certifier: by default fixed with 1,000 samples, or soft if the run has only soft certificates. Use sequential
    with --radii, or prediction for the class alone."""
    radii: str | None = None
    """The radii to certify, such as 0.25,0.5, for a certifier that takes radii."""
    engine: Engine = "auto"
    batch_size: BatchSize = None
    noise: str | None = None
    """The noise: a name (see `radii list noises`), or a table of name and fields. By default that of the run's
    certificates."""
    one_pass: Switch = False
    """Answer each picture by one noisy pass. Nothing is proven about one picture; `radii certify --with one_pass`
    proves how many answers are right under attack."""
    grey: Switch = False
    """Take grey pictures too where the model was trained on colours; they are refused otherwise. Photographs of a
    folder are converted, as in training."""
    json: Json = False
    set: Fields = None
    trust: Trust = None


DEFAULTS = Options()


def predict(run: Path, /, *pictures: Annotated[str, Parameter(json_list=False)], options: Options = DEFAULTS) -> None:
    """Predict the class of pictures, with the votes and the certified radius, one line per picture.

    Pictures are prepared as the run's test pictures were. The noise is fresh and secret. Exit code 0: all pictures got
    an answer. 1: the model abstained on some, or some could not be read. 2: nothing could be asked.

    Args:
        run: A trained run directory.
        pictures: Picture files, folders of pictures, or - to read a list of paths from stdin.
    """
    if options.one_pass and (options.with_ is not None or options.radii is not None or options.set):
        raise ValueError("--one-pass has no certifier. Leave out --with, --radii and --set.")
    with _rare_collections(), printed_warnings(), CountingBar(console) as bar:
        files = _files(pictures)
        predictor = _Predictor(Run(run, options.trust or ()), options)
        answered = 0
        on_picture = bar if options.json else announce_rest(bar, "--with prediction, for the classes alone")
        for number, file in enumerate(files, start=1):
            answered += _answer(predictor, file, options.json)
            on_picture(number, len(files))
    raise SystemExit(0 if answered == len(files) else 1)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: each collection goes through all objects of torch, which stay."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.freeze()  # or the next collection, or that at the end of the process, would go through all of them
        gc.set_threshold(*before)


def _files(pictures: Sequence[str]) -> list[Path]:
    """Return the named pictures and the pictures in the named folders, keeping empty folders to report them."""
    from radii.datasets import pictures_in

    if not pictures:
        raise ValueError("There is nothing to predict. Name pictures, folders, or - for a list of paths from stdin.")
    paths: list[Path] = []
    for picture in pictures:
        if picture == STDIN:
            paths += [Path(line.rstrip("\n")) for line in sys.stdin if line.strip()]
        else:
            paths.append(Path(picture))
    return [file for path in paths for file in (path.is_dir() and pictures_in(path)) or [path]]


class _Predictor:
    """Certifies one picture after another. The model is loaded when the first picture has been read."""

    def __init__(self, run: Run, options: Options) -> None:
        from radii import certifiers, datasets
        from radii.certification.deployment import certified_prediction
        from radii.certification.load import deployed_noise
        from radii.training.weights import model_spec

        self.run, self.options, spec, dataset = run, options, model_spec(run), run.recipe.dataset
        self.noise = deployed_noise(run, None if options.noise is None else parse_value(options.noise))
        self.class_names = spec.class_names
        self.preparation = datasets.preparation(dataset["name"], fields_of(dataset), spec.shape, options.grey)
        self.certifier, default_fields = certified_prediction(run, options.with_)
        if options.with_ is None and self.certifier == CLASS_ONLY:
            self.certifier = "fixed"
        if self.certifier == "fixed":
            default_fields = {"estimation": ESTIMATION}
        self.fields = {**default_fields, **parse_fields(options.set, options.radii)}
        certifiers.create(self.certifier, **self.fields)  # wrong fields are an error before the model is loaded
        if options.one_pass:
            self.noise.probability_after(1.0, 0.0)  # raises for a noise whose single passes prove nothing
        self._described = False

    @property
    def named_noise(self) -> list[str]:
        """The noise in words, if it is not Gaussian noise of the recipe's sigma."""
        from radii.certification.load import noise_of

        return [] if self.noise == noise_of(self.run.recipe) else [f"noise {self.noise}"]

    @cached_property
    def loaded(self) -> tuple[str, "SmoothedClassifier"]:
        """The engine's name and the classifier."""
        from radii.certification.deployment import warn_of_another
        from radii.certification.load import open_run

        engine, classifier = open_run(
            self.run, self.options.engine, self.noise, None, self.options.batch_size, data_at_hand=False
        )
        warn_of_another(self.run, engine, classifier)
        return engine, classifier

    def certify(self, picture: "Tensor") -> "Certificate":
        """Certify a picture."""
        from radii.certification.predict import certify

        self._describe()
        return certify(self.loaded[1], picture, self.certifier, **self.fields)

    def answer_once(self, picture: "Tensor") -> "OnePassAnswer":
        """Answer a picture by one noisy pass."""
        from radii.certification.one_pass import answer_once

        self._describe()
        return answer_once(self.loaded[1], [picture])[0]

    def _describe(self) -> None:
        """Say once how pictures are prepared."""
        if not self._described and not console.quiet:
            print_error(f"pictures are prepared as the test pictures: {self.preparation.words}")
        self._described = True


def _answer(predictor: _Predictor, file: Path, json: bool) -> bool:
    """Print the answer about a picture. Return False if it could not be read or the model abstained."""
    try:
        if not file.is_file():
            problem = "holds no pictures" if file.is_dir() else "is not there"
            raise ValueError(f"{file} {problem}. Name pictures, or folders of them.")
        picture = predictor.preparation.read(file)
    except (ValueError, OSError) as error:
        print_error(in_words(error))
        if json:
            say_json({"file": str(file), "error": in_words(error)})
        return False
    if predictor.options.one_pass:
        _print_once(predictor, file, picture, json)
        return True
    certificate = predictor.certify(picture)
    if json:
        say_json(_as_data(predictor, file, certificate))
    else:
        say(f"{file}: {_as_text(predictor, certificate)}")
    return certificate.prediction >= 0


def _print_once(predictor: _Predictor, file: Path, picture: "Tensor", json: bool) -> None:
    answer, (engine, classifier) = predictor.answer_once(picture), predictor.loaded
    name = predictor.class_names[answer.prediction]
    if json:
        say_json(
            {
                "file": str(file),
                "class": name,
                "label": answer.prediction,
                "one_pass": True,
                "radius": None,
                "samples": 1,
                "noise": classifier.noise.describe(),
                "engine": engine,
                "prepared": predictor.preparation.words,
                "proven": "nothing about this picture",
            }
        )
        return
    words = [
        name,
        "by one noisy pass, nothing is proven about this picture",
        *predictor.named_noise,
        f"engine {engine}",
    ]
    say(f"{file}: {', '.join(words)}")


def _as_text(predictor: _Predictor, certificate: "Certificate") -> str:
    names, label, counts = predictor.class_names, certificate.prediction, certificate.counts
    parts = ["abstains"] if label < 0 else [names[label]]
    if label >= 0 and predictor.certifier != CLASS_ONLY:
        norm = predictor.noise.norm
        parts.append(f"radius {down(certificate.radius, 4)}" + ("" if norm == L2 else f" in {norm}"))
    if votes := sum(counts):
        top = max(range(len(counts)), key=counts.__getitem__)
        share = f"{counts[top]:,} of {votes:,} votes"
        parts.append(share if top == label else f"{share} for {names[top]}")
    failure = getattr(certificate.certifier, "failure", None)
    return ", ".join([*parts, f"failure {failure:g}", *predictor.named_noise, f"engine {predictor.loaded[0]}"])


def _as_data(predictor: _Predictor, file: Path, certificate: "Certificate") -> dict[str, Any]:
    names, label = predictor.class_names, certificate.prediction
    engine, classifier = predictor.loaded
    return {
        "file": str(file),
        "class": names[label] if label >= 0 else None,
        "label": label if label >= 0 else None,
        "radius": certificate.radius if label >= 0 and predictor.certifier != CLASS_ONLY else None,
        "norm": classifier.noise.norm.name,
        "votes": {names[number]: count for number, count in enumerate(certificate.counts) if count},
        "samples": certificate.samples,
        "certifier": predictor.certifier,
        "parameters": asdict(certificate.certifier) if certificate.certifier else {},
        "noise": classifier.noise.describe(),
        "engine": engine,
        "prepared": predictor.preparation.words,
    }
