"""Fashion-MNIST: 60,000 + 10,000 pieces of clothing, 28x28 grey (Xiao, Rasul & Vollgraf 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from radii.datasets.mnist import Hashes, Mnist


@dataclass(frozen=True, kw_only=True, eq=False)
class FashionMnist(Mnist):
    class_names: ClassVar[tuple[str, ...]] = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
    mirror: ClassVar[str] = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
    md5: ClassVar[Hashes] = {
        "train": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
        "test": ("bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
    }
