"""The loops: training, certification, evaluation."""
