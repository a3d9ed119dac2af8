"""Models in and out: ONNX, checkpoints, factories, exports."""
