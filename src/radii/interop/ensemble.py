"""Combine trained runs into an ensemble: one run whose model is the mean of their logits."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from radii.errors import ParameterError
from radii.interop.importer import check_classifier, write_run
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.training.initial_weights import combine_runs
from radii.training.open_dataset import dataset_of

NAME = "ensemble"
"""The model's name in recipes."""


def import_ensemble(
    members: Sequence[Run | Path | str],
    path: Path | str,
    *,
    consensus: int = 0,
    data: Path | str | None = None,
    trust: Collection[str] = (),
) -> Run:
    """Make a run whose model is an ensemble of trained runs with the same dataset, sigma and normalisation.

    With `consensus` K, the other members are evaluated only on images about which the first K disagree. `data` is the
    folder of the dataset; `trust` names the modules whose code the members may import.

    >>> import radii, tempfile
    >>> folder, short = tempfile.mkdtemp(), ["training.epochs=1"]
    >>> members = [
    ...     radii.train("digits/gaussian-0.25", run=f"{folder}/{seed}", settings=[*short, f"seed={seed}"])
    ...     for seed in (0, 1, 2)
    ... ]
    >>> run = radii.import_ensemble(members, f"{folder}/three", consensus=2)
    >>> radii.load(run, engine="torch")
    SmoothedClassifier(..., noise=Gaussian(sigma=0.25), classes=10, engine='torch')
    """
    if isinstance(members, str | Path):
        raise ParameterError(f"members = {str(members)!r}, expected a list of the paths of trained runs")
    runs = [member if isinstance(member, Run) else Run(member, trust) for member in members]
    if len(runs) < 2:
        raise ParameterError(f"an ensemble has {len(runs)} members, expected the paths of at least 2 trained runs")
    first = runs[0].recipe
    for run in runs[1:]:
        _expect_same(run, runs[0])
    recipe = Recipe(
        dataset=first.dataset,
        model={"name": NAME, "members": tuple(str(run.path) for run in runs), "consensus": consensus},
        sigma=first.sigma,
        normalisation=first.normalisation,
        objective="imported",
    )
    dataset = dataset_of(runs[0], None if data is None else Path(data))
    recipe, model, spec, origin = combine_runs(recipe, dataset, trust)
    check_classifier(model.eval(), spec, NAME)
    return write_run(Path(path), recipe, dataset, model, spec, None, origin)


def members_of(table: Mapping[str, Any]) -> Sequence[str]:
    """Return the runs that an ensemble's table names; raise a ParameterError if the table is wrong."""
    members = table.get("members")
    if not isinstance(members, list | tuple) or not all(isinstance(member, str) for member in members):
        raise ParameterError(f"members = {members!r}, expected the paths of trained runs")
    if unknown := sorted(set(table) - {"name", "members", "consensus"}):
        raise ParameterError(f"an ensemble has no field {unknown[0]!r}, expected members and consensus")
    return members


def _expect_same(run: Run, first: Run) -> None:
    """Raise a ParameterError if a member was trained on other data, or with another noise, than the first."""
    pairs = {
        "dataset": (run.recipe.dataset["name"], first.recipe.dataset["name"]),
        "sigma": (run.recipe.sigma, first.recipe.sigma),
    }
    for what, (value, expected) in pairs.items():
        if value != expected:
            raise ParameterError(f"{run.path} has another {what}: {value}, {first.path} has {expected}")
