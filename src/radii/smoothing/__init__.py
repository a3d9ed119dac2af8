"""The mathematics of randomized smoothing."""
