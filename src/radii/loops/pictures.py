"""The pictures that a report shows, left in the run by those who have the dataset open."""

import torch

from radii.datasets import Images
from radii.experiment import gallery
from radii.experiment.certificates import CertificateFile


def keep_pictures(file: CertificateFile, images: Images) -> None:
    """Write the images of a certificate file that are worth a look beside it, so that a report needs no dataset."""
    path, rows = gallery.pictures_file(file.path), gallery.chosen(file.rows())
    wanted = {str(row.index): row.digest for row in rows}
    if not wanted or (path.is_file() and gallery.read(path)[1] == wanted):
        return
    pictures = {str(row.index): images.batch(torch.tensor([row.index]))[0].numpy() for row in rows}
    gallery.write(path, pictures, wanted)
