"""Make models of other libraries by name: `timm:resnet18`, `torchvision:resnet50`, `hf:microsoft/resnet-50`.

Each library needs an extra of radii. The library's configuration states the normalisation of a model. A run of such a
model holds the weights itself: opening it downloads nothing, and runs no code but the installed library's.
"""

import importlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from radii.errors import MissingExtraError, ParameterError
from radii.fields import did_you_mean
from radii.plugins import library_of
from radii.smoothing.normalisation import NONE, Normalisation

Shape = tuple[int, int, int]
CPU_TORCHVISION = "pip install --no-deps --force-reinstall torchvision --index-url https://download.pytorch.org/whl/cpu"


class Library(ABC):
    """A library that makes models and states their normalisation."""

    refused: tuple[str, ...] = ()
    """Arguments that a recipe may not state, because they read files or replace the origin of the weights."""

    @abstractmethod
    def make(self, model: str, shape: Shape, classes: int, pretrained: bool, fields: Mapping[str, Any]) -> nn.Module:
        """Make a model for images of `shape` in `classes` classes."""

    @abstractmethod
    def normalisation(self, model: str, fields: Mapping[str, Any]) -> Normalisation:
        """Return the normalisation that the library states for the model, or NONE."""

    def resolved(self, model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return further fields that a run needs, so that the model can be made without a network."""
        return {}


def factory(name: str) -> Callable[..., nn.Module]:
    """Return the factory of `library:model`; further fields go to the library's own factory."""
    library, model = _library(name)

    def make(*, shape: Shape, classes: int, pretrained: bool = False, **fields: Any) -> nn.Module:
        for field in fields:
            if field in library.refused:
                raise ParameterError(f"The model {name!r} does not take the field {field!r}. Leave it out.", "model")
        try:
            return library.make(model, shape, classes, pretrained, fields)
        except (TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ParameterError(f"{name!r} cannot be made with these fields: {reason}", "model") from error

    return make


def normalisation(name: str, fields: Mapping[str, Any]) -> Normalisation:
    """Return the normalisation that a library states for its model, or NONE."""
    library, model = _library(name)
    return library.normalisation(model, fields)


def resolved(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a library adds to those stated."""
    library, model = _library(name)
    return library.resolved(model, fields)


def _library(name: str) -> tuple[Library, str]:
    return _LIBRARIES[library_of(name)], name.partition(":")[2]


class Timm(Library):
    """PyTorch Image Models."""

    refused = (
        "checkpoint_path",
        "pretrained_cfg",
        "pretrained_cfg_overlay",
        "cache_dir",
        "scriptable",
        "features_only",
    )

    def make(self, model: str, shape: Shape, classes: int, pretrained: bool, fields: Mapping[str, Any]) -> nn.Module:
        options = {"in_chans": shape[0], "num_classes": classes, **fields}
        network: nn.Module = self._timm(model).create_model(model, pretrained=pretrained, **options)
        return network

    def normalisation(self, model: str, fields: Mapping[str, Any]) -> Normalisation:
        config = self._timm(model).get_pretrained_cfg(model)
        return NONE if config is None else _constants(config.mean, config.std)

    def _timm(self, model: str) -> Any:
        timm = _import("timm", "timm")
        known = timm.list_models()
        # A name such as hf-hub:owner/model or local-dir:path would take its architecture from elsewhere.
        if not timm.is_model(model) or ":" in model:
            raise LookupError(f"timm has no model {model!r}{did_you_mean(model, known)}")
        return timm


class Torchvision(Library):
    """torchvision's classifiers."""

    refused = ("weights", "weights_backbone", "progress")

    def make(self, model: str, shape: Shape, classes: int, pretrained: bool, fields: Mapping[str, Any]) -> nn.Module:
        models = self._models(model)
        if not pretrained:
            return cast("nn.Module", models.get_model(model, weights=None, num_classes=classes, **fields))
        weights = models.get_model_weights(model).DEFAULT
        known = len(weights.meta["categories"])
        if classes != known:
            raise ParameterError(
                f"The weights of {model!r} are of {known} classes, the dataset has {classes}. "
                "Use timm, which replaces the last layer, or pretrained = false.",
                "model",
            )
        return cast("nn.Module", models.get_model(model, weights=weights, **fields))

    def normalisation(self, model: str, fields: Mapping[str, Any]) -> Normalisation:
        transforms = self._models(model).get_model_weights(model).DEFAULT.transforms()
        return _constants(transforms.mean, transforms.std)

    def _models(self, model: str) -> Any:
        models = _import("torchvision.models", "torchvision")
        known = models.list_models(module=models)
        if model not in known:
            raise LookupError(f"torchvision has no classifier {model!r}{did_you_mean(model, known)}")
        return models


class HuggingFace(Library):
    """Image classifiers of Hugging Face's transformers; their configuration is stored with the run."""

    def make(self, model: str, shape: Shape, classes: int, pretrained: bool, fields: Mapping[str, Any]) -> nn.Module:
        transformers = _import("transformers", "hf")
        options: dict[str, Any] = {"num_labels": classes, "num_channels": shape[0]}
        self._expect_known(fields)
        if pretrained:
            from_hub = transformers.AutoModelForImageClassification.from_pretrained
            revision = fields.get("revision", "main")
            options |= {"revision": revision, "ignore_mismatched_sizes": True, "use_safetensors": True}
            return Logits(from_hub(model, **options))
        config = json.loads(fields["config"] if "config" in fields else self._config(model, fields))
        model_type = config.pop("model_type", None)
        complete = transformers.AutoConfig.for_model(model_type, **{**config, **options})
        return Logits(transformers.AutoModelForImageClassification.from_config(complete))

    def normalisation(self, model: str, fields: Mapping[str, Any]) -> Normalisation:
        config = json.loads(self._file(model, "preprocessor_config.json", fields))
        if not config.get("do_normalize", "image_mean" in config):
            return NONE
        return _constants(config["image_mean"], config["image_std"])

    def resolved(self, model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        self._expect_known(fields)
        return {} if "config" in fields else {"config": self._config(model, fields)}

    def _config(self, model: str, fields: Mapping[str, Any]) -> str:
        """Return the configuration without code and class names, which the run states itself."""
        config = json.loads(self._file(model, "config.json", fields))
        kept = {key: value for key, value in config.items() if key not in ("auto_map", "id2label", "label2id")}
        return json.dumps(kept, sort_keys=True)

    def _file(self, model: str, file: str, fields: Mapping[str, Any]) -> str:
        hub = _import("huggingface_hub", "hf")
        try:
            path = hub.hf_hub_download(model, file, revision=fields.get("revision", "main"))
        except Exception as error:  # no network, no such repository, no permission: each has its own class
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            raise ParameterError(
                f"{file} of {model!r} cannot be fetched ({reason}). Check the name.", "model"
            ) from error
        return Path(path).read_text(encoding="utf-8")

    def _expect_known(self, fields: Mapping[str, Any]) -> None:
        for field in fields:
            if field not in ("config", "revision"):
                raise LookupError(f"a model of hf: has no field {field!r}{did_you_mean(field, ['config', 'revision'])}")


class Logits(nn.Module):
    """A model of transformers that returns only its logits, so that every engine can convert it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images).logits
        return logits


def _constants(mean: Any, std: Any) -> Normalisation:
    return Normalisation(tuple(float(value) for value in mean), tuple(float(value) for value in std))


def _import(module: str, extra: str) -> Any:
    """Import a library, or raise an error that names the extra to install, or the mismatch with this torch."""
    try:
        with _without_current_folder():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = str(error.name or module).partition(".")[0]
        raise MissingExtraError(f"Models of {extra}: need {package}, which is not installed.", extra) from error
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        raise ParameterError(
            f"torchvision is built for another torch than this one, so {module} cannot be imported. "
            f"Install the build for a CPU: {CPU_TORCHVISION}",
            "model",
        ) from error


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """Import from installed packages only: a file of the library's name in the current folder is not the library."""
    before = sys.path
    sys.path = [entry for entry in before if entry and Path(entry).resolve() != Path.cwd()]
    try:
        yield
    finally:
        sys.path = before


_LIBRARIES: dict[str, Library] = {"timm": Timm(), "torchvision": Torchvision(), "hf": HuggingFace()}
