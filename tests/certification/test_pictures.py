"""The pictures that certification leaves for the report."""

from pathlib import Path

import pytest
import torch

from radii.certification.pictures import keep_pictures
from radii.datasets import samples_of
from radii.datasets.base import InMemory
from radii.runs import gallery
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row


def certified(folder: Path) -> CertificateFile:
    file = CertificateFile(folder / "certificates" / "a.tsv", {"procedure": "fixed", "parameters": {}})
    if not file.rows():
        for index in range(4):
            file.append(Row(index, 1, 1, 0.1 * (index + 1), 1.0, digest=f"{index}"))
    return file


def images(channels: int) -> InMemory:
    return InMemory(torch.rand(4, channels, 5, 6, generator=torch.Generator().manual_seed(0)), torch.ones(4).long())


@pytest.mark.parametrize("before", [None, b"", b"damaged"])
def test_pictures_are_those_of_the_certificates(tmp_path: Path, before: bytes | None) -> None:
    file, split = certified(tmp_path), images(3)
    path = gallery.pictures_file(file.path)
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    keep_pictures(file.path, file.rows(), samples_of(split))
    found, facts = gallery.read(path)
    assert facts == {str(index): str(index) for index in range(4)}
    assert (found["2"] == split.images[2].numpy()).all()


def test_images_that_no_page_can_show_are_left_out(tmp_path: Path) -> None:
    file = certified(tmp_path)
    keep_pictures(file.path, file.rows(), samples_of(images(4)))
    assert not gallery.pictures_file(file.path).exists()
