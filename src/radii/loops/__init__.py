"""What takes time: training, transfer, soft labels, certification."""
