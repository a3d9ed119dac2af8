"""The command line: the only package that prints or mentions flags."""

# Importing a module registers its commands.
from radii.cli import certification, corrupting, export, importing, reporting, training, verify
from radii.cli.app import app, main

__all__ = ["app", "certification", "corrupting", "export", "importing", "main", "reporting", "training", "verify"]
