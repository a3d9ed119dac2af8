"""Import classifiers as runs, and export runs as ONNX files."""
