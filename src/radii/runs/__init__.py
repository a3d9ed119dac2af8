"""Recipes, runs and certificates on disk. Nothing here needs torch."""
