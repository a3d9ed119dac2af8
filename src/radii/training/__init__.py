"""Training and transfer."""
