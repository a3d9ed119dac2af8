"""The command line: alone in printing, and alone in speaking of flags."""

from radii.cli import verbs, verify
from radii.cli.app import app, main

__all__ = ["app", "main", "verbs", "verify"]
