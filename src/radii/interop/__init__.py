"""Classifiers from elsewhere become runs, and runs become ONNX files."""
