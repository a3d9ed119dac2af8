"""The loops of training, transfer, soft labels and certification."""
