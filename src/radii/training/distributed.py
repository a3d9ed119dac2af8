"""The processes that train one model together, as torchrun starts them; alone, a world of one."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from radii.errors import ParameterError
from radii.training.meeting import meet

Result = TypeVar("Result")
SECONDS_TO_STOP = 30.0
"""After torchrun has died: as long as torchrun itself gives its processes."""
LOST = ("gloo", "nccl", "connection", "timed out")
"""Words in the errors of a process whose partner has gone."""


class PeerError(ParameterError):
    """Another process of the same training has ended; it says itself why."""


@dataclass(frozen=True)
class World:
    """The rank of this process and the number of processes; collective calls have to be made by all of them."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that reads and writes the run."""
        return self.rank == 0

    def address(self, *numbers: int) -> tuple[int, ...]:
        """The address of this rank's own random stream; rank 0 has that of a training in one process."""
        return numbers if self.first else (*numbers, self.rank)

    def part(self, indices: Tensor) -> tuple[Tensor, float]:
        """This rank's images of a step, and the weight of its mean such that the average over ranks is the mean.

        A rank without images gets one of them with weight 0: every rank has to take part in every step.
        """
        own = indices.tensor_split(self.size)[self.rank]
        return (own, len(own) * self.size / len(indices)) if len(own) else (indices[:1], 0.0)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks, the same on each."""
        if self.size > 1:
            with self.noticing_peers():
                dist.all_reduce(values)
        return values

    def told(self, act: Callable[[], Result]) -> Result:
        """What rank 0 gets from doing this; the others wait for it, and fail where it fails."""
        if self.size == 1:
            return act()
        return self._act_and_tell(act) if self.first else self._heard()

    def _act_and_tell(self, act: Callable[[], Result]) -> Result:
        try:
            result = act()
        except Exception as error:
            self._broadcast(str(error), True)
            raise
        self._broadcast(result, False)
        return result

    def _heard(self) -> Any:
        found, failed = self._broadcast(None, False)
        if failed:
            raise PeerError(f"rank 0 has stopped: {found}")
        return found

    def _broadcast(self, value: Any, failed: bool) -> list[Any]:
        values = [value, failed]
        with self.noticing_peers():
            dist.broadcast_object_list(values)
        return values

    def expect_same(self, what: str, value: object) -> None:
        """Raise a ParameterError where this rank has another value than rank 0."""
        wanted = self.told(lambda: value)
        if value != wanted:
            raise ParameterError(f"rank {self.rank} has other {what} than rank 0: {value}, expected {wanted}")

    def wait(self) -> None:
        """Wait until every rank is here."""
        self.sum(torch.zeros(1))

    def wrap(self, loss: nn.Module) -> nn.Module:
        """The loss with gradients averaged over the ranks; weights that it does not use get none, as in one process."""
        if self.size == 1:
            return loss
        with self.noticing_peers(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 has another name for broadcast_buffers
            # A static graph is one that always uses the same weights, which every step checks.
            return DistributedDataParallel(
                loss, broadcast_buffers=False, gradient_as_bucket_view=True, static_graph=True
            )

    @contextmanager
    def noticing_peers(self) -> Iterator[None]:
        """Turn the error that follows from the end of another process into a PeerError."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(word in str(error).lower() for word in LOST):
                raise
            raise PeerError(
                "another process of this training has ended, look for its message; the same command continues from the "
                "last checkpoint"
            ) from error


ALONE = World()


def joined() -> World:
    """The processes that torchrun started with this one, which meet here; a world of one without torchrun."""
    if dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    if not dist.is_torchelastic_launched() or os.environ.get("WORLD_SIZE", "1") == "1":
        return ALONE
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    world = World(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    with world.noticing_peers():
        meet(_backend(int(os.environ["LOCAL_RANK"])))
    return world


def _backend(local_rank: int) -> str:
    """nccl for the tensors on a GPU of this process's own, gloo for those on a CPU."""
    if not torch.cuda.is_available():
        return "gloo"
    if local_rank >= torch.cuda.device_count():
        raise ParameterError(
            f"there are {torch.cuda.device_count()} GPUs and process {local_rank + 1} has none: start one for each"
        )
    torch.cuda.set_device(local_rank)
    return "cpu:gloo,cuda:nccl"


def _end_with(parent: int) -> None:
    """Stop this process, as by SIGTERM, when the launcher has died; torchrun itself would no longer do it."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_STOP)
    os._exit(1)


def leave() -> None:
    """Part from the other processes after success: wait for them, and close the connections."""
    if dist.is_initialized():
        World(dist.get_rank(), dist.get_world_size()).wait()
        dist.destroy_process_group()
