"""How much work one task is: a share of what is left, so that large tasks come first and nobody waits at the end."""

from radii.workers.blocks import Request

SHARES = 4
"""The tasks for each worker that what is left would make (guided self-scheduling, Polychronopoulos and Kuck 1987)."""
LEAST_SECONDS = 0.1
"""The shortest task that is worth its way to a worker and back."""
FIRST_BLOCKS = 16
"""The blocks of a task while nothing is known: a pilot that tells the dear images."""


class Pace:
    """What is known of the work: the samples of the images so far, and how fast the workers are."""

    def __init__(self, workers: int, batch_size: int) -> None:
        self._expected_workers = workers
        self._batch_size = batch_size
        self._seen: set[str] = set()
        self._demand: dict[int, int] = {}
        self._total = 0
        self._spent = 0
        self._seconds = 0.0

    @property
    def workers(self) -> int:
        """The workers that were expected, or that have answered, whichever are more."""
        return max(self._expected_workers, len(self._seen))

    def worked(self, worker: str, samples: int, seconds: float) -> None:
        self._seen.add(worker)
        self._spent += samples
        self._seconds += seconds

    def demanded(self, image: int, samples: int) -> None:
        """An image takes at least so many samples, its present request included."""
        self._total += samples - self._demand.get(image, 0)
        self._demand[image] = samples

    def least(self) -> int:
        """The samples of the shortest task, in whole blocks."""
        rate = self._spent / self._seconds if self._seconds else 0.0
        return self._blocks(rate * LEAST_SECONDS)

    def task(self, images_left: int) -> int:
        """The samples of the next task, in whole blocks."""
        if not self._demand:
            return FIRST_BLOCKS * self._batch_size
        left = self._total - self._spent + images_left * self._total / len(self._demand)
        return max(self.least(), self._blocks(left / (SHARES * self.workers)))

    def shares(self, request: Request, images_left: int) -> list[Request]:
        """A request in parts of one task each; one part if it is hardly more than a task."""
        size = self.task(images_left)
        return request.shares(size, self._batch_size) if 2 * request.samples > 3 * size else [request]

    def _blocks(self, samples: float) -> int:
        return max(1, -(-int(samples) // self._batch_size)) * self._batch_size
