"""The command line: one file a verb, and the only package that prints or mentions flags."""

from radii.cli.app import app, main

__all__ = ["app", "main"]

VERBS = {
    "attack": "attack:attack",
    "audit": "audit:audit",
    "certify": "certify:certify",
    "compare": "compare:compare",
    "corrupt": "corrupt:corrupt",
    "demo": "demo:demo",
    "export": "export:export",
    "harden": "harden:harden",
    "import": "import_:import_",
    "list": "list:list_",
    "predict": "predict:predict",
    "pull": "pull:pull",
    "push": "push:push",
    "report": "report:report",
    "serve": "serve:serve",
    "show": "show:show",
    "sign": "sign:sign",
    "soft-labels": "soft_labels:soft_labels",
    "table": "table:table",
    "train": "train:train",
    "transfer": "transfer:transfer",
    "verify": "verify:verify",
    "watch": "watch:watch",
}
"""The file and the function of every verb. The file is imported when the verb is typed."""

for _verb, _function in VERBS.items():
    app.command(f"radii.cli.{_function}", name=_verb)
