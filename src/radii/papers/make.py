"""Train and certify a row of a table at a budget, and everything that it learns from; the same call continues."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.data import Key, dataset_key, open_other
from radii.papers.budgets import Budget
from radii.papers.tables import PaperTable, Row, System, TableError
from radii.published_datasets import corrupted_sets
from radii.runs import certificates
from radii.runs.certificates import OnImage
from radii.runs.run import Run
from radii.training.loop import OnStep, train
from radii.training.soft_labels import soft_labels
from radii.training.transfer import train_students


@dataclass(frozen=True)
class Listeners:
    """Functions that are called with progress."""

    on_step: OnStep = lambda _: None
    on_image: OnImage = lambda *_: None
    on_vote: Callable[[int, int], None] = lambda *_: None


@dataclass(frozen=True)
class Maker:
    """Make rows in runs of a folder; a system that two rows share is trained once."""

    folder: Path
    budget: Budget
    data: Path | None = None
    workers: int | None = None
    listeners: Listeners = Listeners()
    executor: Executor | None = None
    """Used to certify and vote, in place of `workers` processes on this machine."""

    def make(self, table: PaperTable, row: Row, seed: int = 0) -> Run:
        """Train and certify a row; for a table of times only train it, for one of corruptions certify every kind."""
        if row.trainable is None:
            raise TableError(f"the row {row.label!r} of {table.name} cannot be made: {row.why}")
        sets = corrupted_sets(table.dataset[0]) if table.kind == "corruptions" else ()
        corrupted = [dataset_key(spec) for spec in sets]
        for images in corrupted:
            open_other(images, self.data).part("test")  # raises now and not after hours of training
        run = self.train(row.trainable, table.varies, seed)
        if table.kind != "time":
            dataset = table.dataset[0] if corrupted else row.trainable.load_recipe().dataset["name"]
            self._certify(run, corrupted or [()], self.budget.every_of(dataset))
        return run

    def train(self, system: System, varies: Collection[str] = (), seed: int = 0) -> Run:
        """Train a system, after everything that it learns from."""
        recipe = self.budget.recipe(system, varies, seed)
        path = self.folder / self.budget.run_name(system, varies, seed)
        on_step = self.listeners.on_step
        if system.teacher is not None:
            teacher = self.train(system.teacher, seed=seed)
            (student,) = train_students(teacher, recipe, [recipe.model], run=path, data=self.data, on_step=on_step)
            return student
        labels = None if system.soft_labels is None else self._vote(system.soft_labels, seed)
        return train(recipe, path, data=self.data, soft_labels=labels, on_step=on_step)

    def _vote(self, system: System, seed: int) -> Path:
        """Return the file with the soft labels of a system, and make it first if it is missing."""
        run = self.train(system, seed=seed)
        if run.soft_labels_file.is_file():
            return run.soft_labels_file
        return soft_labels(
            run,
            samples=self.budget.soft_label_samples,
            data=self.data,
            workers=self.workers,
            executor=self.executor,
            on_image=self.listeners.on_vote,
        )

    def _certify(self, run: Run, sets: Sequence[Key], every: int) -> None:
        """Certify test images of datasets of equal size; an empty key is the run's own dataset."""

        def on_image(images: int, row: certificates.Row | None) -> None:
            self.listeners.on_image(len(sets) * images, row)

        certifier = certifiers.create("fixed", estimation=self.budget.estimation)
        for key in sets:
            config = CertificationConfig(run=run.path, certifier=certifier, every=every, data=self.data, dataset=key)
            certify_run(config, workers=self.workers, executor=self.executor, on_image=on_image)
