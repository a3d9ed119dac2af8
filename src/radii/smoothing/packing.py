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


def answer_tasks(
    tasks: Sequence[Task], noise: Noise, rows: int, device: torch.device, forward: Forward
) -> list[Answer]:
    """Answer the questions of tasks about images of one size by passes of `rows` noisy copies each.

    Copies are drawn as their addresses say, whatever else is in the pass. With the older streams they are drawn in
    blocks of `rows`: whole blocks are passes of their own, shorter ones share passes. The last pass is filled up with
    copies that are there already.
    """
    pieces = sorted(_pieces(tasks, noise, rows, device), key=lambda piece: piece.whole and piece.rows < rows)
    parts: list[list[Tensor]] = [[] for _ in tasks]
    finite: list[Tensor] = []
    # Channels last: the fastest memory format for convolutions on a CPU. A block may cross the end of a pass.
    channels, height, width = tasks[0].image.shape
    buffer = torch.empty((1 + any(piece.whole for piece in pieces)) * rows, height, width, channels, device=device)
    waiting: deque[tuple[int, int]] = deque()
    draws: list[_Draw] = []
    filled = 0

    def run() -> None:
        """Run the first rows of the buffer and give each task its logits; the rest moves to the front."""
        nonlocal filled
        _draw(noise, draws, buffer, rows)
        draws.clear()
        if filled < rows:
            buffer[filled:rows] = buffer[torch.arange(rows - filled, device=device) % filled]
        logits = forward(buffer[:rows])
        finite.append(logits.isfinite().all())
        at, end = 0, min(filled, rows)
        while at < end:
            task, count = waiting.popleft()
            taken = min(count, end - at)
            parts[task].append(tasks[task].question.answer(logits[at : at + taken]))
            if taken < count:
                waiting.appendleft((task, count - taken))
            at += taken
        if filled > rows:
            buffer[: filled - rows] = buffer[rows:filled]
        filled -= end

    for piece in pieces:
        done = 0
        while done < piece.rows:
            taken = piece.rows if piece.whole else min(piece.rows - done, rows - filled)
            draws.append(_Draw(piece, piece.first + done, filled, taken))
            waiting.append((piece.task, taken))
            filled += taken
            done += taken
            if filled >= rows:
                run()
    if filled:
        run()
    joined = [task.question.gather(answers) for task, answers in zip(tasks, parts, strict=True)]
    # In the type of an answer on the device, so that it needs no copy of its own.
    kind = joined[0].dtype if joined[0].device.type == device.type else torch.int64
    *answers, good = _copied_back([*joined, torch.stack(finite).all()[None].to(kind)])
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
