"""The command line: the only package that prints or mentions flags."""

# Importing a module registers its commands.
from radii.cli import (
    attack,
    certification,
    corrupting,
    export,
    importing,
    listing,
    prediction,
    reporting,
    showing,
    table,
    training,
    verify,
    watch,
)
from radii.cli.app import app, main

__all__ = [
    "app",
    "attack",
    "certification",
    "corrupting",
    "export",
    "importing",
    "listing",
    "main",
    "prediction",
    "reporting",
    "showing",
    "table",
    "training",
    "verify",
    "watch",
]
