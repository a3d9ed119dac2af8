"""radii attack: attack the smoothed classifier of a run."""

from dataclasses import dataclass
from pathlib import Path

from radii.cli.app import console, printed_warnings, say, suggest
from radii.cli.arguments import OPTIONS, BatchSize, Data, Engine, Trust, Whole, WithinMinutes, command, parse_numbers
from radii.cli.estimates import announce
from radii.cli.progress import AttackBar
from radii.reports.attacks import in_words
from radii.runs import attacks


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Options:
    """What `radii attack` takes beside a run."""

    radii: str | None = None
    """The lengths of changes to try, such as 0.25,0.5, in the norm of the noise; by default 1 to 4 times its sigma."""
    steps: Whole = 20
    """The number of gradient ascent steps for each image and radius."""
    copies: Whole = 16
    """The number of noisy copies that a gradient is averaged over."""
    images: Whole = 100
    """The number of images; with --minutes, the most."""
    minutes: WithinMinutes = None
    samples: Whole = 1000
    """The number of votes that decide whether a change succeeds. An abstention is no success."""
    seed: Whole = 0
    """The seed of the noise."""
    sigma: float | None = None
    """The sigma of Gaussian noise; by default the noise of the certificates, or the run's."""
    engine: Engine = "auto"
    batch_size: BatchSize = None
    data: Data = None
    trust: Trust = None


DEFAULTS = Options()


def attack(run: Path, /, *, options: Options = DEFAULTS) -> None:
    """Attack test images of a run, and measure the accuracy left: an upper bound, above the certified accuracy.

    The same command continues where it stopped. `radii report` draws the result as a dashed curve.

    Args:
        run: A trained run directory. Its certified images are attacked, or test images if it has none.
    """
    from radii.certification.attack import AttackConfig, attack_run
    from radii.smoothing import noise as noises

    config = AttackConfig(
        run=run,
        radii=() if options.radii is None else parse_numbers("--radii", options.radii),
        steps=options.steps,
        copies=options.copies,
        images=options.images,
        samples=options.samples,
        seed=options.seed,
        noise=None if options.sigma is None else noises.create("gaussian", sigma=options.sigma),
        engine=options.engine,
        batch_size=options.batch_size,
        data=options.data,
        trust=frozenset(options.trust or ()),
    )
    with printed_warnings(), AttackBar(console) as bar:
        on_estimate = announce(bar, cheaper="--minutes 10, or fewer --images")
        path = attack_run(config, minutes=options.minutes, on_image=bar, on_estimate=on_estimate)
    say(f"{path}: {in_words(attacks.read(path))}")
    suggest(f"next: {command('report', run, trust=options.trust)}")
