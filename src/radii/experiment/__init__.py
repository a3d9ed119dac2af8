"""What lies on disk: recipes, runs, certificates. Nothing here needs torch."""
