"""Certify images of a run again for every line of standard input, with whichever version of radii is on the path.

Answers the seconds from the loaded classifier (with several workers, from the call) to the last row, and the peak
memory of the process in megabytes. That covers sampling, digests, checksums and the writing of rows. Both versions run
this file, so it tries the names of each.
"""

import importlib
import json
import resource
import sys
import time
from pathlib import Path

import torch

from radii import certifiers

MODULES = "radii.certification.certify", "radii.loops.certify"


def main(run: Path, data: Path, images: int, every: int, options: str) -> None:
    torch.set_num_threads(1)
    given = json.loads(options)
    fields, engine, workers = given["certifier"], given["engine"], given["workers"]
    chosen = certifiers.create(fields.pop("name"), **fields)
    code = None
    for module in MODULES:
        try:
            code = importlib.import_module(module)
            break
        except ImportError:
            continue
    assert code is not None, "this is no radii with known names"
    for _ in sys.stdin:
        for path in (run / "certificates").glob("*"):
            path.unlink()
        config = code.CertificationConfig(
            run=run, data=data, engine=engine, certifier=chosen, every=every, max_images=images
        )
        # Of several workers, the start counts: they may start before the classifier is loaded.
        moments = [time.perf_counter()] if workers > 1 else []
        code.certify_run(
            config, workers=workers, on_image=lambda *_, moments=moments: moments.append(time.perf_counter())
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(moments[-1] - moments[0], peak, flush=True)  # the first call tells the number of images


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
