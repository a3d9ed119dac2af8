"""The result of a certifier."""

from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from radii import notebook

ABSTAIN = -1


@dataclass(frozen=True)
class Certificate:
    """The smoothed classifier predicts `prediction` for every image nearer than `radius`."""

    prediction: int
    """ABSTAIN (-1) when nothing is proven."""
    radius: float
    """In the norm of the noise (l2 for Gaussian noise), pixels in [0, 1]; 0.0 when abstaining; never rounded up."""
    samples: int
    """Forward passes used."""
    counts: tuple[int, ...] = field(default=(), compare=False, repr=False)
    """Votes per class that the radius was computed from."""
    certifier: Any = field(default=None, compare=False)
    """The certifier with all its parameters, its failure probability among them."""
    name: str | None = field(default=None, compare=False, repr=False)
    """The name of the predicted class, where the classifier has names."""

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        answer = (
            "abstains: nothing is proven" if self.prediction == ABSTAIN else self.name or f"class {self.prediction}"
        )
        radius = Decimal(repr(self.radius)).quantize(Decimal("0.0001"), ROUND_FLOOR)
        unit = "in the norm of the noise, pixels in [0, 1]"
        rows = [("prediction", answer), ("radius", f"{radius} ({unit})"), ("samples", f"{self.samples:,}")]
        return notebook.table((), rows)
