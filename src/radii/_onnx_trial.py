"""Open the ONNX graph on standard input and run it once, within a limit of time.

A stranger's graph may loop for ever inside ONNX Runtime, which handles no signal, so onnx_graph.py runs this script
in a separate process. It does not import torch.
"""

import resource
import sys
from contextlib import suppress

import numpy as np
import onnxruntime

ANY_SIZE = 32
"""The height and width that are tried if a graph takes images of any size."""


def main(seconds: int) -> None:
    """Open the graph and run it on an image of random pixels."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))  # if the parent is gone
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    content = sys.stdin.buffer.read()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    defaults = (1, 3, ANY_SIZE, ANY_SIZE)
    if len(inputs) == 1 and len(inputs[0].shape) == len(defaults):
        sides = zip(inputs[0].shape, defaults, strict=True)
        shape = [side if isinstance(side, int) else default for side, default in sides]
        images = np.random.default_rng(0).random(shape, dtype=np.float32)
        with suppress(Exception):  # the same error is raised when the graph is used
            session.run(None, {inputs[0].name: images})


if __name__ == "__main__":
    main(int(sys.argv[1]))
