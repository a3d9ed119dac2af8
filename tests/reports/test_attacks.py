"""Attacks in a report: only those on the same weights, images and noise; broken certificates are reported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radii.reports.attacks import attacked_accuracy, broken_certificates, in_words, largest_attack
from radii.reports.inputs import Entry, read
from radii.reports.page.curves import caption
from radii.reports.page.notes import notes
from radii.reports.page.pictures import GalleryItem, galleries, read_pictures
from radii.reports.report import report
from radii.runs import attacks, certificates, gallery, readers
from radii.runs.attacks import AttackedImage
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from tests.reports.samples import write_run

NOISE = {"name": "gaussian", "sigma": 0.25}
BUDGET: dict[str, Any] = {"weights": "w", "data": "d", "engine": "torch", "copies": 2, "samples": 100, "seed": 0}


def certified(folder: Path, radius: float = 0.5, **changes: Any) -> Entry:
    """Return the input of a run with certificates of two images."""
    run = write_run(folder)
    header = {"procedure": "fixed", "parameters": {"failure": 0.001}, "sigma": 0.25, "noise": NOISE}
    file = CertificateFile(run.certificates / "a.tsv", {**header, "weights": "w", "data": "d", "seed": 0, **changes})
    for index in range(2):
        file.append(Row(index, 1, 1, radius, 0.1, 1000, {1: 990}, f"digest {index}"))
    gallery.write(gallery.pictures_file(file.path), {"0": np.ones((1, 8, 8), np.float32)}, {"0": "digest 0"})
    (entry,) = read([folder])
    return entry


def attacked(entry: Entry, distances: list[float | None], steps: int = 5) -> Path:
    assert entry.run is not None
    header = {**BUDGET, "noise": NOISE, "steps": steps, "radii": [0.5, 1.0], "images": list(range(len(distances)))}
    with attacks.open_file(entry.run, header) as file:
        for index, length in enumerate(distances):
            wrong = None if length is None else 0
            file.append(AttackedImage(index, 1, 1, length, wrong, 0.1, f"digest {index}"))
    return file.path


def change(path: Path, name: str, distance: float, answer: int) -> None:
    record = {name: {"distance": distance, "answer": answer, "digest": "digest 0"}}
    gallery.write(attacks.pictures_file(path), {name: np.zeros((1, 8, 8), np.float32)}, record)


def gallery_items(entry: Entry) -> list[GalleryItem]:
    pictures = read_pictures(entry)
    assert pictures is not None
    (images,) = galleries([(entry, pictures)])
    return [item for items in images.groups.values() for item in items]


def test_an_attack_under_another_sigma_is_not_shown(tmp_path: Path) -> None:
    entry = certified(tmp_path / "run", noise={"name": "gaussian", "sigma": 0.5})
    attacked(entry, [0.1, None])
    assert entry.certificates.sigma == 0.5
    assert largest_attack(entry) is None
    assert broken_certificates(entry) == 0


def test_dashed_curves_are_explained_where_there_are_any(tmp_path: Path) -> None:
    entry = certified(tmp_path / "run")
    assert caption([entry]) == "Certified accuracy, % of all images."
    attacked(entry, [None, 0.7])
    assert "Dashed: the share of the attacked images" in caption(read([tmp_path / "run"]))


def test_abstentions_are_errors_after_an_attack_too(tmp_path: Path) -> None:
    entry = certified(tmp_path / "run")
    rows = [AttackedImage(0, 1, 1, None, None, 0.1, "digest 0"), AttackedImage(1, 1, -1, None, None, 0.1, "digest 1")]
    header = {**BUDGET, "noise": NOISE, "steps": 5, "radii": [0.5], "images": [0, 1]}
    attack = attacks.Attack(header, rows)
    share = attacked_accuracy(attack, 0.0)
    assert share is not None
    assert share.value == 0.5
    assert "right and not changed: 50.0% at 0.00, 50.0% at 0.50; 50.0% get no answer" in in_words(attack)
    assert "(gaussian, sigma 0.25, radii in l2; 5 steps, " in in_words(attack), "a run may be attacked under two noises"
    assert entry.run is not None
    with attacks.open_file(entry.run, header) as file:
        for row in rows:
            file.append(row)
    (entry,) = read([tmp_path / "run"])
    assert any("attacked on 2 images, 1 without an answer, counted as errors" in note for note in notes([entry]))


def test_broken_certificate_of_a_smaller_attack_is_reported(tmp_path: Path) -> None:
    entry = certified(tmp_path / "run")
    attacked(entry, [None, 0.7])
    assert broken_certificates(entry) == 0
    attacked(entry, [0.3], steps=500)
    (entry,) = read([tmp_path / "run"])
    assert broken_certificates(entry) == 1


@pytest.mark.parametrize(("name", "distance"), [("0-inside", 0.49), ("0-outside", 0.4)])
def test_broken_certificate_beside_a_picture_is_reported(name: str, distance: float, tmp_path: Path) -> None:
    entry = certified(tmp_path / "run")
    path = attacked(entry, [None, None])
    change(path, name, distance, 1)
    assert broken_certificates(entry) == 0
    change(path, name, distance, 0)
    (entry,) = read([tmp_path / "run"])
    assert broken_certificates(entry) == 1


@pytest.mark.parametrize(("name", "radius"), [("0-inside", 0.3), ("0-outside", 0.6)])
def test_a_change_at_the_radius_of_another_certificate_is_not_shown(name: str, radius: float, tmp_path: Path) -> None:
    kept = {"0-inside": 0.6, "0-outside": 0.3}[name]
    for number, (size, is_shown) in enumerate(((radius, False), (kept, True))):
        entry = certified(tmp_path / str(number), radius=size)
        change(attacked(entry, [None, None]), name, 0.5, 1)
        pictures = read_pictures(entry)
        assert pictures is not None
        assert (pictures.change(0, name.partition("-")[2]) is not None) == is_shown


@pytest.mark.parametrize(
    ("answer", "words"),
    [(1, "the attack fails"), (-1, "the vote is too close for an answer"), (0, "answers class 0")],
)
def test_outcome_of_an_attack_is_below_the_picture(answer: int, words: str, tmp_path: Path) -> None:
    entry = certified(tmp_path / "run")
    change(attacked(entry, [None, None]), "0-inside", 0.49, answer)
    (item,) = gallery_items(entry)
    assert item[1:5] == ("class 1", "right", "0.500", "Votes: 990 for class 1")
    assert item.outcome == f"Inside, at 0.490: {words}. No wrong answer was found outside."


def test_a_change_of_no_length_is_not_shown(tmp_path: Path) -> None:
    entry = certified(tmp_path / "run")
    change(attacked(entry, [None, None]), "0-inside", 0.0, 1)
    (item,) = gallery_items(entry)
    assert item.outcome == ""
    pictures = read_pictures(entry)
    assert pictures is not None
    assert pictures.change(0, "inside") is None


def test_pictures_without_a_certificate_are_left_out(tmp_path: Path) -> None:
    entry = certified(tmp_path / "run")
    path = attacked(entry, [None, None])
    change(path, "x-inside", 0.1, 1)
    pixels = np.ones((1, 8, 8), np.float32)
    file = next((tmp_path / "run" / "pictures").iterdir())
    gallery.write(file, {"0": pixels, "x": pixels}, {"0": "digest 0"})
    pictures = read_pictures(entry)
    assert pictures is not None
    assert list(pictures.clean) == [0]


def test_a_report_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = certified(tmp_path / "run")
    change(attacked(entry, [None, None]), "0-inside", 0.49, 1)
    opened: list[str] = []
    for module, name in ((certificates, "read"), (attacks, "read"), (gallery, "read"), (readers, "history")):
        monkeypatch.setattr(module, name, counting(getattr(module, name), opened))
    report([tmp_path / "run"], tmp_path / "out")
    assert sorted(opened) == sorted(set(opened))
    assert len(opened) == 4, "certificates, attack, and the pictures of both"


def counting(read: Callable[[Path], Any], opened: list[str]) -> Callable[[Path], Any]:
    """Wrap a reader, to list what it reads."""

    def wrapped(path: Path) -> Any:
        opened.append(str(path))
        return read(path)

    return wrapped
