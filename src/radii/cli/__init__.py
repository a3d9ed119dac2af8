"""The command line: the only package that prints or mentions flags."""

# Importing a module registers its commands.
from radii.cli import certification, export, importing, reporting, table, training, verify
from radii.cli.app import app, main

__all__ = ["app", "certification", "export", "importing", "main", "reporting", "table", "training", "verify"]
