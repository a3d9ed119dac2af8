"""OpenVINO on a CPU in int8, calibrated on noisy training images: another function, certified as it is."""

import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from radii.engines._openvino import convert, infer, is_installed
from radii.engines.base import CALIBRATION, Engine, EngineSpec, FixedBlock


@dataclass(frozen=True, kw_only=True)
class OpenVinoInt8(Engine):
    least_agreement: ClassVar[float] = 0.9

    @classmethod
    def runs_on(cls, device: torch.device) -> bool:
        return is_installed() and device.type == "cpu"

    def prepare(self, spec: EngineSpec) -> nn.Module:
        converted = convert(spec)
        import openvino

        file = spec.artefact.with_suffix(".xml")
        if not file.is_file():
            openvino.save_model(_quantised(converted, spec), file, compress_to_fp16=False)
        return FixedBlock(infer(openvino.Core().read_model(file)), spec.batch_size)


def _quantised(model: Any, spec: EngineSpec) -> Any:
    import nncf

    noisy = spec.noisy(spec.pictures(), CALIBRATION)
    blocks = [block.numpy() for block in noisy.split(spec.batch_size) if len(block) == spec.batch_size]
    with redirect_stdout(io.StringIO()):  # it draws progress bars of its own
        return nncf.quantize(model, nncf.Dataset(blocks), subset_size=len(noisy) // spec.batch_size)
