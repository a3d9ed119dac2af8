"""radii attack: attack the smoothed classifier of a run."""

from pathlib import Path

from radii.cli.app import console, printed_warnings, say, suggest
from radii.cli.arguments import Data, Trust, Whole, WithinMinutes, command, parse_numbers
from radii.cli.estimates import announce
from radii.cli.progress import AttackBar
from radii.reports.attacks import in_words
from radii.runs import attacks


def attack(
    run: Path,
    /,
    *,
    radii: str | None = None,
    steps: Whole = 20,
    copies: Whole = 16,
    images: Whole = 100,
    minutes: WithinMinutes = None,
    samples: Whole = 1000,
    seed: Whole = 0,
    sigma: float | None = None,
    engine: str = "auto",
    batch_size: Whole | None = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Attack test images of a run, and measure the accuracy left: an upper bound, above the certified accuracy.

    The same command continues where it stopped. `radii report` draws the result as a dashed curve.

    Args:
        run: A trained run directory. Its certified images are attacked, or test images if it has none.
        radii: The lengths of changes to try, such as 0.25,0.5, in the norm of the noise; by default 1 to 4
            times its sigma.
        steps: The number of gradient ascent steps for each image and radius.
        copies: The number of noisy copies that a gradient is averaged over.
        images: The number of images; with --minutes, the most.
        samples: The number of votes that decide whether a change succeeds. An abstention is no success.
        seed: The seed of the noise.
        sigma: The sigma of Gaussian noise; by default the noise of the certificates, or the run's.
        engine: The engine that counts the votes; auto takes the one that the model was certified with.
        batch_size: The noisy copies of a forward pass that counts votes, on which the draws do not depend; by default
            as many as suit the device.
    """
    from radii.certification.attack import AttackConfig, attack_run
    from radii.smoothing import noise as noises

    config = AttackConfig(
        run=run,
        radii=() if radii is None else parse_numbers("--radii", radii),
        steps=steps,
        copies=copies,
        images=images,
        samples=samples,
        seed=seed,
        noise=None if sigma is None else noises.create("gaussian", sigma=sigma),
        engine=engine,
        batch_size=batch_size,
        data=data,
        trust=frozenset(trust or ()),
    )
    with printed_warnings(), AttackBar(console) as bar:
        path = attack_run(
            config, minutes=minutes, on_image=bar, on_estimate=announce(bar, cheaper="--minutes 10, or fewer --images")
        )
    say(f"{path}: {in_words(attacks.read(path))}")
    suggest(f"next: {command('report', run)}")
