"""Commands in processes that torchrun started: one of them speaks, and all end without torch's shutdown."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path


def is_first() -> bool:
    """Whether this process is the one that shows progress and results."""
    return not _is_launched() or os.environ.get("RANK", "0") == "0"


def _is_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


@contextmanager
def ending_as_launched() -> Iterator[None]:
    """In a launched process only rank 0 prints, and its end, which is the end of the process, is at once.

    torch may abort a process that shuts down after a distributed training, though all its work is done. After an error
    the end also closes the connections, so that the other processes end as well.
    """
    if not _is_launched():
        yield
        return
    # torchrun signals each process; one that another has told to stop already gets its own signal late.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(sys.stdout if is_first() else nowhere):
            yield
    except SystemExit as ended:
        _end(ended.code if isinstance(ended.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        _end(1)


def _end(code: int) -> None:
    if code == 0:
        from radii.training.distributed import leave

        leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
