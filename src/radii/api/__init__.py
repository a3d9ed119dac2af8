"""What Python programs call: certify and predict images or whole datasets, train, transfer, export, report."""

from radii.api.dataset import certify_dataset
from radii.api.images import certify, predict
from radii.api.results import Results
from radii.api.runs import export, train, transfer

__all__ = ["Results", "certify", "certify_dataset", "export", "predict", "train", "transfer"]
