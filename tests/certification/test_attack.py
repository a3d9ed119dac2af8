"""The attack on a run: what it finds is above what is certified, and it continues where it was killed."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii import certifiers
from radii.certification import attack
from radii.certification.attack import AttackConfig, AttackSession, attack_run, differentiable, distance
from radii.certification.certify import CertificationConfig, certify_run
from radii.datasets import spread_evenly
from radii.errors import ParameterError
from radii.reports.attacks import attacked_accuracy, in_words
from radii.reports.inputs import read
from radii.reports.page.pictures import read_pictures
from radii.reports.report import report
from radii.runs import attacks, certificates, gallery
from radii.runs.recipe import Recipe, Training
from radii.runs.run import RunError
from radii.smoothing.certificate import ABSTAIN
from radii.training.loop import train


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> AttackConfig:
    """A run that was trained a little, and certified."""
    training = Training(epochs=4, images_per_step=64, learning_rate=0.1, schedule="one_cycle")
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training)
    run = train(recipe, Path(tmp_path_factory.mktemp("runs")) / "digits")
    fixed = certifiers.create("fixed", estimation=500)
    certify_run(CertificationConfig(run=run.path, certifier=fixed, every=15, engine="torch"), workers=1)
    return AttackConfig(run=run.path, radii=(0.5, 1.5), steps=6, copies=4, images=8, samples=200, engine="torch")


@pytest.fixture(scope="module")
def attacked(config: AttackConfig) -> Path:
    return attack_run(config)


def answers(path: Path) -> list[tuple[Any, ...]]:
    return [(row.index, row.prediction, row.distance, row.wrong, row.digest) for row in attacks.read(path).rows]


@pytest.mark.slow
def test_several_gpus_share_an_attack_and_this_process_stays_off_them(
    config: AttackConfig, attacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPUs are only pretended: the workers find none. They count in passes of another size."""
    run = Path(shutil.copytree(config.run, tmp_path / "run"))
    for name in ("attacks", "events"):
        shutil.rmtree(run / name, ignore_errors=True)
    monkeypatch.setattr(attack, "worker_variables", lambda: [{"CUDA_VISIBLE_DEVICES": name} for name in "01"])
    for name in ("attack", "around", "changed", "answer"):
        monkeypatch.setattr(AttackSession, name, lambda *_: pytest.fail("this process attacks"))
    path = attack_run(replace(config, run=run, engine="auto", batch_size=100), minutes=60)
    assert answers(path) == answers(attacked)
    assert attacks.pictures_file(path).is_file()


def test_images_have_passes_of_the_stated_size(config: AttackConfig) -> None:
    assert AttackSession(replace(config, batch_size=37)).classifier.batch_size == 37
    assert AttackSession(config).classifier.batch_size == 128
    older = AttackSession(replace(config, batch_size=37))
    older.use_stream(None)
    assert older.classifier.batch_size == 128, "blocks of the older streams have this size"
    with pytest.raises(ValueError, match="batch_size = 0, expected a whole number >= 1"):
        replace(config, batch_size=0)


@pytest.mark.slow
def test_certified_accuracy_is_below_attacked_accuracy(config: AttackConfig, attacked: Path) -> None:
    found = attacks.read(attacked)
    (file,) = (config.run / "certificates").glob("*.tsv")
    certified = {row.digest: row for row in certificates.read(file).rows}
    assert len(found.rows) == 8
    assert any(row.distance for row in found.rows), "the attack is effective"
    for row in found.rows:
        assert row.distance is None or row.distance <= 1.5 * (1 + 1e-5)
        assert row.wrong != row.label
        proof = certified[row.digest]
        assert row.distance is None or not proof.correct or row.distance > proof.radius
    assert attacked_accuracy(found, 2.0) is None, "nothing is known beyond the largest radius"
    assert "6 steps, 4 noise copies, 200 votes" in in_words(found)


def test_attack_of_another_function_does_not_continue(
    config: AttackConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are the same in both."""
    quick = replace(config, run=shutil.copytree(config.run, tmp_path / "run"), radii=(0.5,), steps=1, images=2)
    path = attack_run(quick)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    with monkeypatch.context() as patch:
        patch.setattr(nn.ReLU, "forward", lambda _, images: torch.tanh(images))
        with pytest.raises(RunError, match="was made with another function: logits of random images differ"):
            attack_run(quick)
    recipe = quick.run / "recipe.toml"
    stated = recipe.read_text()
    recipe.write_text(stated.replace('normalisation = "full"', 'normalisation = "none"'))
    with pytest.raises(RunError, match="was made with another model table in its recipe"):
        attack_run(quick)
    assert attacks.read(path).rows[0].index == 0
    recipe.write_text(stated)
    assert attack_run(quick) == path
    assert len(attacks.read(path).rows) == 2


@pytest.mark.slow
def test_a_killed_attack_continues(config: AttackConfig, attacked: Path) -> None:
    before, pictures = answers(attacked), attacks.pictures_file(attacked)
    content, shown = attacked.read_bytes(), pictures.read_bytes()
    rows = content.index(b"\n") + 1
    attacked.write_bytes(content[: rows + (len(content) - rows) * 2 // 3])
    pictures.unlink()
    seen: list[Any] = []
    assert attack_run(config, on_image=lambda total, row: seen.append((total, row))) == attacked
    assert answers(attacked) == before
    assert pictures.read_bytes() == shown
    assert [total for total, _ in seen] == [8] * 9


@pytest.mark.slow
def test_pictures_inside_and_outside_the_radius(config: AttackConfig, attacked: Path) -> None:
    pictures, facts = gallery.read(attacks.pictures_file(attacked))
    clean, _ = gallery.read(next((config.run / "pictures").glob("*.safetensors")))
    (file,) = (config.run / "certificates").glob("*.tsv")
    rows = {row.index: row for row in certificates.read(file).rows}
    outside = 0
    for name, picture in pictures.items():
        index, _, kind = name.partition("-")
        row, length = rows[int(index)], float(((picture - clean[index]).astype("float64") ** 2).sum() ** 0.5)
        assert facts[name]["distance"] == pytest.approx(length)
        if kind == "inside":
            assert length <= row.radius
            assert facts[name]["answer"] in (row.prediction, ABSTAIN)
        else:
            outside += 1
            assert length > row.radius
            assert facts[name]["answer"] not in (row.prediction, ABSTAIN)
    assert outside


@pytest.mark.slow
@pytest.mark.usefixtures("attacked")
def test_the_report_shows_the_attack(config: AttackConfig, tmp_path: Path) -> None:
    text = report(
        [config.run], tmp_path / "out", labels={str(config.run): "Mine"}, title="A < B", command="x"
    ).read_text()
    assert 'class="attacked"' in text
    assert "no certificate was broken" in text
    assert "data:image/png;base64," in text
    assert "Smallest radius" in text
    assert "<h1>A &lt; B</h1>" in text
    assert "by <code>x</code>" in text
    (entry,) = read([config.run])
    assert read_pictures(entry) is not None
    # Pictures of other images than the certificates' are not shown.
    file = next((config.run / "pictures").glob("*.safetensors"))
    content = file.read_bytes()
    pictures, facts = gallery.read(file)
    gallery.write(file, pictures, dict.fromkeys(facts, "other"))
    assert read_pictures(entry) is None
    file.write_bytes(content)


@pytest.mark.slow
def test_another_budget_is_another_file(config: AttackConfig, attacked: Path) -> None:
    other = AttackSession(replace(config, steps=7)).header
    assert other != AttackSession(config).header
    assert AttackSession(config).header["weights"] == attacks.read(attacked).header["weights"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps = 0, expected a whole number >= 1"),
        ({"images": 0}, "images = 0"),
        ({"radii": (0.0,)}, "expected numbers above 0"),
        ({"radii": (float("nan"),)}, "expected numbers above 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_a_wrong_budget_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttackConfig(run=Path("runs/g"), **fields)


def test_a_model_without_gradients_is_refused() -> None:
    class Elsewhere(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.from_numpy(images.detach().numpy()).flatten(1)

    with pytest.raises(ParameterError, match="no gradients"):
        differentiable(Elsewhere(), torch.zeros(1, 1, 2, 2))


def test_images_are_spread() -> None:
    assert spread_evenly(range(10), 5) == [0, 2, 4, 6, 8]
    assert spread_evenly([3, 7], 100) == [3, 7]


@pytest.mark.slow
@pytest.mark.parametrize("factor", [30.0, 1e6])
def test_a_model_that_is_sure_is_attacked_all_the_same(config: AttackConfig, factor: float) -> None:
    """Its loss is nearly or exactly flat: the gradient is tiny, or zero."""
    session = AttackSession(config)
    session.model = Sure(session.model, factor)
    image = session.images.batch(torch.tensor([0]))[0]
    label = int(session.images.labels[0])
    assert distance(session.changed(0, image, label, 0.5, 0), image) > 0.25


class Sure(nn.Module):
    """A model with larger logits."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return self.factor * logits
