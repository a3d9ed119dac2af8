"""The command line: the only package that prints or mentions flags."""

from radii.cli import export, verbs, verify
from radii.cli.app import app, main

__all__ = ["app", "export", "main", "verbs", "verify"]
