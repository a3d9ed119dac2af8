"""Training and certifying a row of a table at a budget, with all that it learns from; the same call continues."""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radii import certifiers
from radii.certification.certify import CertificationConfig, OnImage, certify_run
from radii.certification.evaluated import Key, dataset_key, open_other
from radii.papers.budgets import Budget
from radii.papers.table import PaperTable, Row, System, TableError
from radii.papers.table_identity import identity, schedule
from radii.published_datasets import corrupted_sets
from radii.runs import certificates
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.training.loop import OnStep, train
from radii.training.soft_labels import soft_labels
from radii.training.transfer import train_students


@dataclass(frozen=True)
class Listeners:
    """Who is told of the progress."""

    on_step: OnStep = lambda _: None
    on_image: OnImage = lambda *_: None
    on_vote: Callable[[int, int], None] = lambda *_: None


@dataclass(frozen=True)
class Maker:
    """Makes rows in runs of a folder: a system that two rows share is trained once."""

    folder: Path
    budget: Budget
    data: Path | None = None
    workers: int | None = None
    listeners: Listeners = Listeners()
    executor: Executor | None = None
    """Who certifies and votes, if not `workers` processes of this machine."""

    def make(self, table: PaperTable, row: Row, seed: int = 0) -> Run:
        """Train and certify a row: of a table of times only train it, of one of corruptions certify every kind."""
        if row.trainable is None:
            raise TableError(f"the row {row.label!r} of {table.name} cannot be made: {row.why}")
        sets = corrupted_sets(table.dataset[0]) if table.kind == "corruptions" else ()
        corrupted = [dataset_key(each) for each in sets]
        for images in corrupted:
            open_other(images, self.data).part("test")  # hours before they are needed
        run = self.train(row.trainable, table.varies, seed)
        if table.kind != "time":
            every = self.budget.every_of(table.dataset[0] if corrupted else row.trainable.read().dataset["name"])
            self._certify(run, corrupted or [()], every)
        return run

    def train(self, system: System, varies: Collection[str] = (), seed: int = 0) -> Run:
        """Train a system, and before it what it learns from."""
        recipe = self.budget.recipe(system, varies, seed)
        path = self.folder / name_of(system, self.budget, varies, seed)
        on_step = self.listeners.on_step
        if system.teacher is not None:
            teacher = self.train(system.teacher, seed=seed)
            (student,) = train_students(teacher, recipe, [recipe.model], run=path, data=self.data, on_step=on_step)
            return student
        labels = None if system.soft_labels is None else self._votes(system.soft_labels, seed)
        return train(recipe, path, data=self.data, soft_labels=labels, on_step=on_step)

    def _votes(self, system: System, seed: int) -> Path:
        """The soft labels by the votes of a system."""
        run, samples = self.train(system, seed=seed), self.budget.soft_label_samples
        if run.soft_labels_file.is_file():
            return run.soft_labels_file
        return soft_labels(
            run,
            samples=samples,
            data=self.data,
            workers=self.workers,
            executor=self.executor,
            on_image=self.listeners.on_vote,
        )

    def _certify(self, run: Run, sets: Sequence[Key], every: int) -> None:
        """Certify test images of the run's own dataset, whose key is empty, or of others, which all have as many."""

        def on_image(images: int, row: certificates.Row | None) -> None:
            self.listeners.on_image(len(sets) * images, row)

        certifier = certifiers.create("fixed", estimation=self.budget.estimation)
        for key in sets:
            config = CertificationConfig(run=run.path, certifier=certifier, every=every, data=self.data, dataset=key)
            certify_run(config, workers=self.workers, executor=self.executor, on_image=on_image)


def name_of(system: System, budget: Budget, varies: Collection[str], seed: int) -> str:
    """The folder of a system's run: what one can read of it, and a digest of all that decides it."""
    recipe = budget.recipe(system, varies, seed)
    stem = f"{recipe.dataset['name']}-{recipe.objective['name']}-{recipe.sigma:.2f}-{recipe.model['name']}"
    digest = hashlib.sha256(json.dumps(_decides(system, recipe, budget, seed), sort_keys=True).encode()).hexdigest()
    return f"{budget.name}/{stem}-seed{seed}-{digest[:6]}".replace(":", "-")


def _decides(system: System, recipe: Recipe, budget: Budget, seed: int) -> list[Any]:
    """What decides a run; fields with their defaults do not, so that a later version continues it."""
    sources = {key: name_of(source, budget, (), seed) for key, source in system.sources().items()}
    votes = budget.soft_label_samples if system.soft_labels else None
    return [identity(recipe), schedule(recipe), seed, sources, votes]
