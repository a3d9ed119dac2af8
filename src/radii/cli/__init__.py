"""The command line: alone in printing, and alone in speaking of flags."""

from radii.cli import export, verbs
from radii.cli.app import app, main

__all__ = ["app", "export", "main", "verbs"]
