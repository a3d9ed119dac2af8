"""Train in several processes: connect the ranks, exchange values, and check that all train the same recipe."""

import os
import secrets
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import metadata
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from radii.datasets import Images
from radii.device import default_device
from radii.errors import ParameterError
from radii.runs.recipe import Recipe

Result = TypeVar("Result")
RENDEZVOUS_TIMEOUT = timedelta(minutes=30)
SECONDS_TO_STOP = 30.0
"""How long a process may take to stop after torchrun has died; torchrun itself waits as long."""
CONNECTION_ERRORS = ("gloo", "nccl", "connection", "timed out")
"""Words in the error of a collective call whose peer has ended; gloo raises plain RuntimeErrors."""
MACHINE_FIELDS = ("dataset.path", "training.initial")
"""Fields of a recipe that may differ between machines; the digests of the files are compared instead."""


class PeerError(ParameterError):
    """Another process of this training has ended; that process reports the reason."""


@dataclass(frozen=True)
class World:
    """The rank of this process and the number of processes. Every rank has to make the same collective calls."""

    rank: int = 0
    size: int = 1

    @property
    def is_rank0(self) -> bool:
        """Whether this process reads and writes the run."""
        return self.rank == 0

    def address(self, *numbers: int) -> tuple[int, ...]:
        """Return the address of this rank's random stream; rank 0 has the address of a training in one process."""
        return numbers if self.is_rank0 else (*numbers, self.rank)

    def split(self, indices: Tensor) -> tuple[Tensor, float]:
        """Return this rank's images of a step and the weight of their mean loss.

        The average over the ranks of weight times mean is the mean over the step's images. A rank without images gets
        one of them with weight 0, because every rank has to take part in every step.
        """
        own = indices.tensor_split(self.size)[self.rank]
        return (own, len(own) * self.size / len(indices)) if len(own) else (indices[:1], 0.0)

    def sum(self, values: Tensor) -> Tensor:
        """Sum values over all ranks."""
        if self.size > 1:
            with self.peer_errors():
                dist.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait until every rank has called this."""
        self.sum(torch.zeros(1))

    def broadcast_from_rank0(self, act: Callable[[], Result]) -> Result:
        """Run `act` on rank 0 and return its result on every rank; if it fails, every rank raises an error."""
        if self.size == 1:
            return act()
        if not self.is_rank0:
            content, failed = self._broadcast(None, False)
            if failed:
                raise PeerError(f"rank 0 has stopped: {content}")
            received: Result = content
            return received
        try:
            result = act()
        except Exception as error:
            self._broadcast(str(error), True)
            raise
        self._broadcast(result, False)
        return result

    def _broadcast(self, content: Any, failed: bool) -> list[Any]:
        message = [content, failed]
        with self.peer_errors():
            dist.broadcast_object_list(message)
        return message

    def expect_same(self, what: str, value: object) -> None:
        """Raise a ParameterError if this rank has another value than rank 0."""
        expected = self.broadcast_from_rank0(lambda: value)
        if value != expected:
            raise ParameterError(f"rank {self.rank} has other {what} than rank 0: {value}, expected {expected}")

    def wrap(self, loss: nn.Module) -> nn.Module:
        """Average the gradients of a loss over the ranks; parameters that it does not use get none."""
        if self.size == 1:
            return loss
        with self.peer_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 renames broadcast_buffers
            # static_graph requires that every step uses the same parameters; gradient_step checks this.
            return DistributedDataParallel(
                loss, broadcast_buffers=False, gradient_as_bucket_view=True, static_graph=True
            )

    @contextmanager
    def peer_errors(self) -> Iterator[None]:
        """Raise a PeerError in place of the connection error that follows when another process has ended."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(word in str(error).lower() for word in CONNECTION_ERRORS):
                raise
            raise PeerError(
                "another process of this training has ended, see its message; the same command continues from the "
                "last checkpoint"
            ) from error


ALONE = World()


# Joining and leaving


def join_world() -> World:
    """Connect to the other processes that torchrun started; without torchrun, return a world of one process."""
    if dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    if not dist.is_torchelastic_launched() or os.environ.get("WORLD_SIZE", "1") == "1":
        return ALONE
    threading.Thread(target=_stop_when_orphaned, args=(os.getppid(),), daemon=True).start()
    world = World(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    with world.peer_errors():
        _connect(_choose_backend(int(os.environ["LOCAL_RANK"])))
    return world


def leave_world() -> None:
    """Wait for the other processes after success, and close the connections."""
    if dist.is_initialized():
        World(dist.get_rank(), dist.get_world_size()).wait()
        dist.destroy_process_group()


def _choose_backend(local_rank: int) -> str:
    """Return gloo for CPUs; with GPUs, give this process its own and add nccl."""
    device = default_device()
    if device.type != "cuda":
        return "gloo"
    if device.index != local_rank and (local := int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) > 1:
        raise ParameterError(
            f"RADII_DEVICE = '{device}' is one GPU for {local} processes. Set it to 'cuda', and each gets its own."
        )
    if local_rank >= torch.cuda.device_count():
        raise ParameterError(
            f"process {local_rank + 1} of this machine has no GPU, there are {torch.cuda.device_count()}: "
            "start one process for each GPU"
        )
    torch.cuda.set_device(device)
    return "cpu:gloo,cuda:nccl"


def _stop_when_orphaned(launcher: int) -> None:
    """Send this process SIGTERM when torchrun has died; nothing else would stop it."""
    while os.getppid() == launcher:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_STOP)
    os._exit(1)


def _connect(backend: str) -> None:
    store, rank, size = next(rendezvous("env://", timeout=RENDEZVOUS_TIMEOUT))
    private = PrefixStore(f"radii/{agree_on_token(store, rank, size)}", store)
    dist.init_process_group(backend, store=private, rank=rank, world_size=size, timeout=RENDEZVOUS_TIMEOUT)


def agree_on_token(store: Store, rank: int, size: int) -> str:
    """Return a token of rank 0 that only the processes of this attempt receive.

    torchrun keeps one store for all its attempts. Without the token, a restarted process may read the address of a dead
    one in it and wait for that.
    """
    own = secrets.token_hex(8)
    if rank == 0:
        _send_token(store, own, set(range(1, size)))
        return own
    store.set(f"radii/rank/{rank}", own)
    token: str = store.get(f"radii/welcome/{own}").decode()
    store.set(f"radii/here/{token}/{rank}", "")
    return token


def _send_token(store: Store, token: str, missing: set[int]) -> None:
    """Send the token until every rank has confirmed it; entries of dead processes are never confirmed."""
    deadline = time.monotonic() + RENDEZVOUS_TIMEOUT.total_seconds()
    while missing:
        for rank in missing:
            if store.check([f"radii/rank/{rank}"]):
                store.set(f"radii/welcome/{store.get(f'radii/rank/{rank}').decode()}", token)
        missing = {rank for rank in missing if not store.check([f"radii/here/{token}/{rank}"])}
        if time.monotonic() > deadline:
            raise ParameterError(
                f"rank {min(missing)} has not connected within {RENDEZVOUS_TIMEOUT}: see torchrun's messages about it"
            )
        time.sleep(0.02)


# What must be the same on all ranks


def expect_same_inputs(world: World, recipe: Recipe, origin: Mapping[str, Any], images: Images, test: Images) -> None:
    """Check that all ranks train the same recipe on the same data with the same versions."""
    if world.size > 1:
        world.expect_same("versions", {name: metadata.version(name) for name in ("radii", "torch")})
        expect_same_recipe(world, recipe, origin)
        world.expect_same("training images", images.digest)
        world.expect_same("test images", test.digest)


def expect_same_recipe(world: World, recipe: Recipe, origin: Mapping[str, Any]) -> None:
    """Check that recipe, teacher, soft labels and initial weights are the same as on rank 0."""
    fields = dict(_recipe_fields(recipe))
    hashes = {name: source.get("hash") for name, source in origin.items()}
    expected_fields, expected_hashes = world.broadcast_from_rank0(lambda: (fields, hashes))
    for name, value, expected in _differences(fields, expected_fields):
        raise ParameterError(
            f"rank {world.rank} has another recipe than rank 0: {name} = {value!r}, expected {expected!r}"
        )
    for name, value, expected in _differences(hashes, expected_hashes):
        what = name.replace("_", " ")
        raise ParameterError(f"rank {world.rank} has another {what} than rank 0: {value}, expected {expected}")


def _differences(values: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names whose values differ, with both values; None stands for a missing one."""
    for name in sorted({*values, *expected}):
        if values.get(name) != expected.get(name):
            yield name, values.get(name), expected.get(name)


def _recipe_fields(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a recipe under their dotted names, without MACHINE_FIELDS."""
    for key, value in asdict(recipe).items():
        fields = {f"{key}.{name}": field for name, field in value.items()} if isinstance(value, dict) else {key: value}
        yield from ((name, field) for name, field in fields.items() if name not in MACHINE_FIELDS)
