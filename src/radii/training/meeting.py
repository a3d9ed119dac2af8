"""How processes that were started together find each other, also when they are started again.

torchrun keeps one store for all its attempts, so a process may read the address that a dead one left there, and wait
for it. Here only processes that answer each other meet.
"""

import secrets
import time
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from radii.errors import ParameterError

TIMEOUT = timedelta(minutes=30)


def meet(backend: str) -> None:
    """Join the processes that torchrun has started with this one."""
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    private = PrefixStore(f"radii/{agreed_word(store, rank, size)}", store)
    dist.init_process_group(backend, store=private, rank=rank, world_size=size, timeout=TIMEOUT)


def agreed_word(store: Store, rank: int, size: int) -> str:
    """A word that rank 0 makes up and tells each of the others which are alive now."""
    own = secrets.token_hex(8)
    if rank == 0:
        _welcome(store, own, set(range(1, size)))
        return own
    store.set(f"radii/rank/{rank}", own)
    word: str = store.get(f"radii/welcome/{own}").decode()
    store.set(f"radii/here/{word}/{rank}", "")
    return word


def _welcome(store: Store, word: str, missing: set[int]) -> None:
    """Tell whoever has come the word, until each has answered; names that dead processes left get no answer."""
    deadline = time.monotonic() + TIMEOUT.total_seconds()
    while missing:
        for rank in missing:
            if store.check([f"radii/rank/{rank}"]):
                store.set(f"radii/welcome/{store.get(f'radii/rank/{rank}').decode()}", word)
        missing = {rank for rank in missing if not store.check([f"radii/here/{word}/{rank}"])}
        if time.monotonic() > deadline:
            raise ParameterError(f"rank {min(missing)} has not come in {TIMEOUT}: see what torchrun says of it")
        time.sleep(0.02)
