"""OpenVINO on a CPU in int8, calibrated on noisy training images: a different function, certified as such."""

import errno
import io
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch
from torch import nn

from radii import disk
from radii.disk import locked
from radii.engines._openvino import convert, core, infer, is_installed, without_telemetry
from radii.engines.base import CALIBRATION, Engine, EngineSpec, FixedBlock


@dataclass(frozen=True, kw_only=True)
class OpenVinoInt8(Engine):
    least_agreement: ClassVar[float] = 0.9
    calibrates: ClassVar[bool] = True

    @classmethod
    def runs_on(cls, device: torch.device) -> bool:
        return is_installed() and device.type == "cpu"

    def prepare(self, spec: EngineSpec) -> nn.Module:
        converted = convert(spec)
        file = spec.artefact.with_suffix(".xml")
        with nullcontext() if file.is_file() else locked(file, wait=True):
            if not file.is_file():
                _save(_quantised(converted, spec), file)
        return FixedBlock(infer(core().read_model(file)), spec.batch_size)


def _save(model: Any, file: Path) -> None:
    """Write the two files of a model, each atomically; the .xml last, since it marks the model as complete."""
    import openvino

    names = [file.with_suffix(suffix).name for suffix in (".bin", ".xml")]
    disk.sweep(file.parent, names)
    with TemporaryDirectory() as folder:
        aside = Path(folder) / file.name
        try:
            openvino.save_model(model, aside, compress_to_fp16=False)
        except RuntimeError as error:  # OpenVINO's error of a full disk names no file
            raise OSError(errno.EIO, "OpenVINO cannot write this file: is the disk full?", str(aside)) from error
        for name in names:
            disk.write(file.with_name(name), aside.with_name(name).read_bytes())


def _quantised(model: Any, spec: EngineSpec) -> Any:
    without_telemetry()
    import nncf

    noisy = spec.noisy(spec.calibration_images(), CALIBRATION)
    blocks = [block.numpy() for block in noisy.split(spec.batch_size) if len(block) == spec.batch_size]
    with redirect_stdout(io.StringIO()):  # it prints progress bars
        return nncf.quantize(model, nncf.Dataset(blocks), subset_size=len(noisy) // spec.batch_size)
