"""Write ONNX classifiers that a stranger might send."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 8, 8)
"""The images that they take: those of `digits`."""
CLASSES = 10
LONG = 1 << 50
"""Rounds of a loop that does not end."""


def looping(path: Path, rounds: int = LONG, *, only_bright: bool = False) -> Path:
    """Write a linear classifier that first counts in a loop; with `only_bright`, if the first pixel is white."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["sum", "one"], ["next_sum"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, []),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next_sum", TensorProto.FLOAT, []),
        ],
        [numpy_helper.from_array(np.array(0.0, np.float32), "one")],
    )
    pixels = int(np.prod(SHAPE))
    weights = np.random.default_rng(0).standard_normal((pixels, CLASSES)).astype(np.float32)
    constants = {
        "rounds": np.array(rounds, np.int64),
        "yes": np.array(True),
        "zero": np.array(0.0, np.float32),
        "bright": np.array(0.99, np.float32),
        "first": np.array([0], np.int64),
        "weights": weights,
    }
    nodes = [helper.make_node("Flatten", ["images"], ["flat"])]
    count = "rounds"
    if only_bright:
        count = "needed"
        nodes += [
            helper.make_node("Gather", ["flat", "first"], ["column"], axis=1),
            helper.make_node("ReduceMin", ["column"], ["pixel"], keepdims=0),
            helper.make_node("Greater", ["pixel", "bright"], ["is_bright"]),
            helper.make_node("Cast", ["is_bright"], ["factor"], to=TensorProto.INT64),
            helper.make_node("Mul", ["rounds", "factor"], [count]),
        ]
    nodes += [
        helper.make_node("Loop", [count, "yes", "zero"], ["nothing"], body=body),
        helper.make_node("MatMul", ["flat", "weights"], ["product"]),
        helper.make_node("Add", ["product", "nothing"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", *SHAPE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path
