"""Certify a few images of a run again for every line of standard input, with whichever version of radii is on the path.

Answers the seconds from the first finished row to the last one: sampling, digests, checksums and the writing of rows,
not the start. Both versions that are compared run this file, so it tries the names of each.
"""

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import torch

from radii import certifiers

NEW = "radii.certification.certify", "CertificationConfig", "certifier", "max_images", "on_image"
OLD = "radii.engine.certify", "Plan", "procedure", "most", "watch"


def main(run: Path, data: Path, images: int, samples: int) -> None:
    torch.set_num_threads(1)
    certifier = certifiers.create("fixed", estimation=samples)
    for _ in sys.stdin:
        for path in (run / "certificates").glob("*"):
            path.unlink()
        print(_seconds(certifier, run=run, data=data, most=images), flush=True)


def _seconds(certifier: Any, *, run: Path, data: Path, most: int) -> float:
    try:
        module, config, procedure, limit, watch = NEW
        code = importlib.import_module(module)
    except ImportError:
        module, config, procedure, limit, watch = OLD
        code = importlib.import_module(module)
    moments: list[float] = []
    plan = getattr(code, config)(run=run, data=data, engine="torch", **{procedure: certifier, limit: most + 1})
    code.certify_run(plan, workers=1, **{watch: lambda *_: moments.append(time.perf_counter())})
    return moments[-1] - moments[1]  # the first call tells the number of images


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
