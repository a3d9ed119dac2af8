"""Push a run to the Hugging Face hub, and pull one, with the extra radii[hf].

A push sends weights, recipe, training history, certificates, attacks and a model card, but no pictures and no paths of
this machine. A pull copies files with known names only, and imports no code.
"""

import importlib
import re
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from radii import disk
from radii.certification.deployment import stated_noise
from radii.errors import MissingExtraError, ParameterError
from radii.reports.inputs import is_present
from radii.reports.model_card import markdown
from radii.runs import certificates, population, readers
from radii.runs.recipe import Recipe
from radii.runs.run import Run, RunError
from radii.runs.trust import module_of

ADDRESS = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
FILES = (
    *("recipe.toml", "model.safetensors", "environment.json", "training.csv", "data.json", "check.json"),
    *("transfer.json", "engine.json"),
)
"""The files of a run that are pushed and pulled, without origin.json, which holds paths to other runs."""
FOLDERS = {"certificates": (".tsv", ".json"), "population": (".tsv", ".json"), "attacks": (".jsonl",)}
"""The folders of a run that are pushed and pulled, with the endings of their files."""
NAME = re.compile(r"[\w+=,-][\w.+=,-]*")
"""The allowed names of files in a folder; they do not begin with a dot."""
CARD = "README.md"
"""The file of the model card."""


class Address(NamedTuple):
    """A repository of the hub, and one of its revisions."""

    repository: str
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse hf://owner/name or hf://owner/name@revision."""
        match = ADDRESS.fullmatch(text)
        if match is None or any(set(name) == {"."} for name in match["repository"].split("/")):
            raise ParameterError(f"{text!r} is not an address of the hub. Write hf://owner/name.", "address")
        return cls(match["repository"], match["revision"])


def push(run: Run | Path | str, address: str, *, private: bool = False, trust: Collection[str] = ()) -> str:
    """Push a trained run to `hf://owner/name`, with its certificates and a model card; return the commit's page.

    The repository is created if there is none, a private one with `private`. Certificates and attacks that the run no
    longer has are removed from it. Log in first with `hf auth login`.

    >>> import radii
    >>> radii.push("runs/mine", "owner/name")
    Traceback (most recent call last):
    radii.errors.ParameterError: 'owner/name' is not an address of the hub. Write hf://owner/name.
    """
    place = Address.parse(address)
    if place.revision is not None:
        raise ParameterError(f"{address!r} names a revision. Push to hf://{place.repository}.", "address")
    run = run if isinstance(run, Run) else Run(run, trust)
    run.weights()
    api = _hub().HfApi()
    with tempfile.TemporaryDirectory() as folder:
        _gather(run, place.repository, Path(folder))
        try:
            api.create_repo(place.repository, private=private or None, exist_ok=True)
            commit = api.upload_folder(
                repo_id=place.repository,
                folder_path=folder,
                commit_message=f"radii push {run.name}",
                delete_patterns=[f"{name}/*" for name in FOLDERS],
            )
        except Exception as error:  # no network, no permission and a full quota have no common base class
            raise _failure(f"{run.path} cannot be pushed to {address}", error) from error
    return str(commit.commit_url)


def pull(address: str, path: Path | str) -> Run:
    """Pull a run from `hf://owner/name` or `hf://owner/name@revision` into a new directory.

    Files in the hub's cache are not fetched again; without a network all files come from there. Nothing of the run is
    executed: code that its recipe names is used only if you trust it when you open the run.

    >>> import radii
    >>> radii.pull("https://example.org/a", "runs/mine")
    Traceback (most recent call last):
    radii.errors.ParameterError: 'https://example.org/a' is not an address of the hub. Write hf://owner/name.
    """
    place, target = Address.parse(address), Path(path)
    if target.exists() or target.is_symlink():
        raise RunError(f"{target} already exists. Name another folder.", "run")
    snapshot = _snapshot(place, address)
    disk.make_folder(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        pulled = Path(folder) / "run"
        disk.make_folder(pulled)
        for name, content in _pulled_files(snapshot, address):
            disk.make_folder((pulled / name).parent)
            disk.write(pulled / name, content)
        _check(Run(pulled), address)
        disk.move_folder(pulled, target)
    return Run(target)


def named_code(run: Run) -> list[str]:
    """Return the `module:name`s in a run's recipe: whoever uses the run has to read and trust that code."""
    return [name for name in run.stated_recipe().names() if module_of(name)]


# Pushing


def _gather(run: Run, repository: str, folder: Path) -> None:
    """Copy the files of a run that are pushed into a folder, and write the model card."""
    for name in FILES:
        if (run.path / name).is_file():
            disk.write(folder / name, (run.path / name).read_bytes())
    disk.write(folder / "recipe.toml", _without_paths(run.recipe).to_toml())
    for name, endings in FOLDERS.items():
        for file in sorted((run.path / name).glob("*")):
            if file.suffix in endings and file.is_file() and _is_of(run, file):
                disk.make_folder(folder / name)
                disk.write(folder / name / file.name, file.read_bytes())
    disk.write(folder / CARD, markdown(run, repository, stated_noise(run)))


def _is_of(run: Run, file: Path) -> bool:
    """Return whether a certificate file, its header or an attack file is of the run's present function."""
    if file.suffix == ".jsonl":
        first = readers.text(file, readers.MOST_CERTIFICATES).split("\n", 1)[0]
        return is_present(run, readers.parse_object(first, str(file)))
    header = file if file.suffix == ".json" else certificates.header_file(file)
    return header.is_file() and is_present(run, certificates.read_header(header))


def _without_paths(recipe: Recipe) -> Recipe:
    """Return a recipe without locations: they name folders of this machine, and are not part of its identity."""
    dataset = {key: value for key, value in recipe.dataset.items() if key != "path"}
    training = recipe.training and replace(recipe.training, initial=None)
    return replace(recipe, dataset=dataset, training=training)


# Pulling


def _snapshot(place: Address, address: str) -> Path:
    """Fetch the files of a run into the hub's cache; return the folder of the snapshot."""
    patterns = [*FILES, *(f"{folder}/*{ending}" for folder, endings in FOLDERS.items() for ending in endings)]
    try:
        folder = _hub().HfApi().snapshot_download(place.repository, revision=place.revision, allow_patterns=patterns)
    except MissingExtraError:
        raise
    except Exception as error:  # no network and not cached, no such repository, no permission
        raise _failure(f"{address} cannot be pulled", error) from error
    return Path(folder)


def _pulled_files(snapshot: Path, address: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of a run's files; leave out other names, and refuse links out of the cache."""
    cache = snapshot.parents[1].resolve()
    folders = [snapshot / name for name in FOLDERS if (snapshot / name).is_dir()]
    for path in (
        *(snapshot / name for name in FILES),
        *(file for folder in folders for file in sorted(folder.iterdir())),
    ):
        name = path.relative_to(snapshot)
        known = FOLDERS.get(name.parts[0]) if len(name.parts) > 1 else None
        if known is not None and not (path.suffix in known and NAME.fullmatch(path.name)):
            continue
        if not path.exists():
            continue
        if not path.resolve().is_relative_to(cache) or not path.is_file():
            raise RunError(f"{name} of {address} is a link to a file outside the hub's cache. Remove {path}.")
        yield name.as_posix(), path.read_bytes()


def _check(run: Run, address: str) -> None:
    """Raise a RunError unless a run has a recipe and weights, and its certificates can be read."""
    for file in (run.recipe_file, run.weights_file):
        if not file.is_file():
            raise RunError(f"{address} is not a run of radii: it has no {file.name}. Check the address.")
    try:
        run.stated_recipe()
        readers.weights_metadata(run.weights_file)
        for path in run.certificates.glob("*.tsv"):
            certificates.read(path)
        for path in population.files(run):
            population.read(path)
    except ValueError as error:
        reason = str(error).replace(f"{run.path}/", "")
        raise RunError(f"{address} is damaged: {readers.short(reason)}. Ask its owner to push it again.") from error


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise MissingExtraError("hf:// needs huggingface_hub, which is not installed.", "hf") from error


def _failure(what: str, error: Exception) -> ParameterError:
    reason = " ".join(str(error).split())[:200]
    advice = "Check the name and the network, and log in with `hf auth login`."
    return ParameterError(f"{what}: {type(error).__name__}: {reason}. {advice}", "address")
