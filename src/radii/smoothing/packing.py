"""Forward passes of one shape, shared by the noisy copies of several tasks."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise.base import Noise
from radii.smoothing.questions import Answer, Task

Forward = Callable[[Tensor], Tensor]
"""Computes the logits of a pass [row, height, width, channel]."""


class _Piece(NamedTuple):
    """Copies that are drawn together: a block of a question, or its shorter last one."""

    task: int
    pixels: Tensor
    rows: int
    address: NoiseAddress


def answer_tasks(
    tasks: Sequence[Task], noise: Noise, rows: int, device: torch.device, forward: Forward
) -> list[Answer]:
    """Answer the questions of tasks about images of one size by passes of `rows` noisy copies each.

    Copies are drawn in blocks of `rows`, as their addresses say, whatever else is in the pass. Whole blocks are passes
    of their own; shorter ones share passes. The last pass is filled up with copies that are there already.
    """
    parts: list[list[Tensor]] = [[] for _ in tasks]
    # Channels last: the fastest memory format for convolutions on a CPU. Twice the rows: a piece may cross a pass.
    channels, height, width = tasks[0].image.shape
    buffer = torch.empty(2 * rows, height, width, channels, device=device)
    waiting: deque[tuple[int, int]] = deque()
    filled = 0

    def run() -> None:
        """Run the first rows of the buffer and give each task its logits; the rest moves to the front."""
        nonlocal filled
        if filled < rows:
            buffer[filled:rows] = buffer[torch.arange(rows - filled, device=device) % filled]
        logits = forward(buffer[:rows])
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

    for piece in sorted(_pieces(tasks, rows, device), key=lambda piece: piece.rows < rows):
        noise.perturb(piece.pixels, buffer[filled : filled + piece.rows], piece.address.generator(0, device))
        waiting.append((piece.task, piece.rows))
        filled += piece.rows
        if filled >= rows:
            run()
    if filled:
        run()
    return [
        task.question.join([part.cpu().numpy() for part in answers]) for task, answers in zip(tasks, parts, strict=True)
    ]


def _pieces(tasks: Sequence[Task], rows: int, device: torch.device) -> Iterator[_Piece]:
    for number, (image, address, question) in enumerate(tasks):
        if question.first % rows:
            raise ValueError(f"a question about copies from {question.first} on, expected a multiple of {rows}")
        pixels = image.detach().to(device, torch.float32).permute(1, 2, 0)
        stage, block = address.at(question.stage), question.first // rows
        for start in range(0, question.count, rows):
            yield _Piece(number, pixels, min(rows, question.count - start), stage.from_block(block + start // rows))
