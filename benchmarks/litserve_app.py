"""One pass a request behind LitServe, with its batching: python litserve_app.py RUN PORT."""

import base64
import sys
from typing import Any

import litserve  # type: ignore[import-not-found, unused-ignore]
import numpy as np
import torch
from torch import Tensor

import radii


class OnePass(litserve.LitAPI):  # type: ignore[misc]
    """Answers as `radii serve --mode one-pass` does, without evidence and without limits."""

    def setup(self, device: str) -> None:
        self.classifier = radii.load(sys.argv[1], engine="torch")

    def decode_request(self, request: dict[str, Any]) -> Tensor:
        pixels = np.frombuffer(base64.b64decode(request["pixels"]), np.float32)
        return torch.from_numpy(pixels.copy()).reshape(request["shape"])

    def batch(self, inputs: list[Tensor]) -> Tensor:
        return torch.stack(inputs)

    def predict(self, images: Tensor) -> list[int]:
        return [answer.prediction for answer in radii.predict_once(self.classifier, images)]

    def unbatch(self, output: list[int]) -> list[int]:
        return output

    def encode_response(self, output: int) -> dict[str, int]:
        return {"class": output}


if __name__ == "__main__":
    api = OnePass(max_batch_size=16, batch_timeout=0.002)
    litserve.LitServer(api, accelerator="cpu").run(port=int(sys.argv[2]), generate_client_file=False, log_level="error")
