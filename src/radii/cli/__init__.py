"""The command line: one file a verb, and the only package that prints or mentions flags."""

# Importing a verb's file registers the verb.
from radii.cli import (  # noqa: F401
    attack,
    certify,
    corrupt,
    demo,
    export,
    import_,
    list,
    predict,
    report,
    show,
    soft_labels,
    table,
    train,
    transfer,
    verify,
    watch,
)
from radii.cli.app import app, main

__all__ = ["app", "main"]
