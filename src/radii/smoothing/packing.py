"""Forward passes of one shape, shared by the noisy copies of several tasks.

Nothing here waits for the device: answers are added up on it and copied back once, for all tasks together.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from radii.smoothing.addresses import PHILOX, NoiseAddress
from radii.smoothing.forward import runs_ahead
from radii.smoothing.logits import expect_finite
from radii.smoothing.noise.base import Noise
from radii.smoothing.questions import Answer, Task
from radii.smoothing.streams import Joined, Part, Stream, counts_right

Forward = Callable[[Tensor], Tensor]
"""Computes the logits of a pass [row, height, width, channel]."""


class _Draw(NamedTuple):
    """Copies of an image from `first` on, for these rows of the buffer."""

    piece: "_Piece"
    first: int
    start: int
    rows: int


class _Piece(NamedTuple):
    """Copies `first` to `first + rows` of a task."""

    task: int
    pixels: Tensor
    address: NoiseAddress
    first: int
    rows: int
    whole: bool
    """Whether the copies have to be drawn together: a block of the older streams."""


class _Passes:
    """Forward passes of `rows` copies each, and what the questions of the tasks answer about them, on the device.

    Copies are drawn into `buffer`, of which `filled` rows are taken. They may cross the end of a pass.
    """

    def __init__(self, tasks: Sequence[Task], noise: Noise, rows: int, buffer: Tensor, forward: Forward) -> None:
        self.tasks, self.noise, self.rows, self.buffer, self.forward = tasks, noise, rows, buffer, forward
        self.filled = 0
        self.answers: list[list[Tensor]] = [[] for _ in tasks]
        self.finite: list[Tensor] = []
        self._waiting: deque[tuple[int, int]] = deque()
        """The tasks of the copies in the buffer, each with its number of copies."""
        self._draws: list[_Draw] = []
        """Copies that are drawn when a pass is full: a device draws those of several images together."""

    def add(self, piece: _Piece, first: int, copies: int) -> None:
        """Add copies of a piece, from `first` on, and run a full pass."""
        self._draws.append(_Draw(piece, first, self.filled, copies))
        self._waiting.append((piece.task, copies))
        self.filled += copies
        if self.filled >= self.rows:
            self.run()

    def run(self) -> None:
        """Run the first rows of the buffer and give each task its logits; the rest moves to the front."""
        buffer, rows = self.buffer, self.rows
        _draw(self.noise, self._draws, buffer, rows)
        self._draws.clear()
        if self.filled < rows:
            buffer[self.filled : rows] = buffer[torch.arange(rows - self.filled, device=buffer.device) % self.filled]
        logits = self.forward(buffer[:rows])
        self.finite.append(logits.isfinite().all())
        at, end = 0, min(self.filled, rows)
        while at < end:
            task, count = self._waiting.popleft()
            taken = min(count, end - at)
            self.answers[task].append(self.tasks[task].question.answer(logits[at : at + taken]))
            if taken < count:
                self._waiting.appendleft((task, count - taken))
            at += taken
        if self.filled > rows:
            buffer[: self.filled - rows] = buffer[rows : self.filled]
        self.filled -= end


def answer_tasks(
    tasks: Sequence[Task], noise: Noise, rows: int, device: torch.device, forward: Forward
) -> list[Answer]:
    """Answer the questions of tasks about images of one size by passes of `rows` noisy copies each.

    Copies are drawn as their addresses say, whatever else is in the pass. With the older streams they are drawn in
    blocks of `rows`: whole blocks are passes of their own, shorter ones share passes. The last pass is filled up with
    copies that are there already.
    """
    pieces = sorted(_pieces(tasks, noise, rows, device), key=lambda piece: piece.whole and piece.rows < rows)
    # Channels last: the fastest memory format for convolutions on a CPU.
    channels, height, width = tasks[0].image.shape
    buffer = torch.empty((1 + any(piece.whole for piece in pieces)) * rows, height, width, channels, device=device)
    passes = _Passes(tasks, noise, rows, buffer, forward)
    for piece in pieces:
        done = 0
        while done < piece.rows:
            taken = piece.rows if piece.whole else min(piece.rows - done, rows - passes.filled)
            passes.add(piece, piece.first + done, taken)
            done += taken
    if passes.filled:
        passes.run()
    joined = [task.question.gather(answers) for task, answers in zip(tasks, passes.answers, strict=True)]
    # In the type of an answer on the device, so that it needs no copy of its own.
    kind = joined[0].dtype if joined[0].device.type == device.type else torch.int64
    *answers, good = _copied_back([*joined, torch.stack(passes.finite).all()[None].to(kind)])
    expect_finite(bool(good[0]))
    return [task.question.join([answer]) for task, answer in zip(tasks, answers, strict=True)]


def _pieces(tasks: Sequence[Task], noise: Noise, rows: int, device: torch.device) -> Iterator[_Piece]:
    placed: dict[int, Tensor] = {}  # several tasks may be about one image
    for number, (image, address, question) in enumerate(tasks):
        if (pixels := placed.get(id(image))) is None:
            # A copy of pageable memory is staged before this returns, and is not waited for.
            copy = image.detach().to(device, torch.float32, non_blocking=runs_ahead(device))
            pixels = placed[id(image)] = copy.permute(1, 2, 0)
        if address.stream not in (None, PHILOX):
            raise ValueError(f"the random streams {address.stream!r} are not known, expected {PHILOX!r}")
        address, first, end = address.at(question.stage), question.first, question.first + question.count
        if address.stream == noise.stream == PHILOX:
            yield _Piece(number, pixels.contiguous(), address, first, question.count, False)
            continue
        if first % rows:
            raise ValueError(f"a question about copies from {first} on, expected a multiple of {rows}")
        for start in range(first, end, rows):
            yield _Piece(number, pixels, address, start, min(rows, end - start), True)


def _draw(noise: Noise, draws: Sequence[_Draw], buffer: Tensor, rows: int) -> None:
    """Fill the buffer with copies; on a device other than a CPU those of several images together."""
    device = buffer.device
    if len(draws) == 1 or any(draw.piece.whole for draw in draws) or not _joins(noise, device):
        for piece, first, start, count in draws:
            draw_copies(noise, piece.pixels, buffer[start : start + count], piece.address, first, rows)
        return
    parts = [Part(stream_of(draw.piece.address), draw.first, draw.rows) for draw in draws]
    joined = Joined.of(parts, device)
    pixels = torch.stack([draw.piece.pixels for draw in draws]).index_select(0, joined.origins)
    start = draws[0].start
    noise.draw(pixels, buffer[start : start + len(pixels)], joined, 0)


def _joins(noise: Noise, device: torch.device) -> bool:
    """Return whether copies of several images are drawn together; on a CPU that would take longer."""
    return noise.joins and device.type != "cpu" and counts_right(device)


def stream_of(address: NoiseAddress) -> Stream:
    """Return the stream of an address."""
    return Stream.at(address.purpose, address.seed, address.image, address.stage)


def draw_copies(
    noise: Noise, pixels: Tensor, out: Tensor, address: NoiseAddress, first: int = 0, rows: int = 1
) -> None:
    """Fill `out` [copy, ...] with the copies of an address from `first` on; older streams have blocks of `rows`."""
    if address.stream == noise.stream == PHILOX:
        noise.draw(pixels, out, stream_of(address), first)
    else:
        noise.perturb(pixels, out, address.generator(first // rows, out.device))


def _copied_back(tensors: Sequence[Tensor]) -> list[Answer]:
    """Return tensors of one dimension as arrays; those of one type come in one copy."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return [tensor.numpy() for tensor in tensors]
    arrays: dict[int, Answer] = {}
    for kind in {tensor.dtype for tensor in tensors}:
        numbers = [number for number, tensor in enumerate(tensors) if tensor.dtype == kind]
        flat = torch.cat([tensors[number] for number in numbers]).cpu()
        sizes = [len(tensors[number]) for number in numbers]
        arrays.update(zip(numbers, (part.numpy() for part in flat.split(sizes)), strict=True))
    return [arrays[number] for number in range(len(tensors))]
