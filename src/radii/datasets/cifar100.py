"""CIFAR-100: 50,000 + 10,000 photographs in 100 fine classes, 32x32 (Krizhevsky 2009)."""

from dataclasses import dataclass
from typing import ClassVar

from radii.datasets._files import Published
from radii.datasets.cifar10 import Cifar10, Files
from radii.smoothing.normalisation import CIFAR100, Normalisation

_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
bowl boy bridge bus butterfly camel can castle caterpillar cattle
chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
plain plate poppy porcupine possum rabbit raccoon ray road rocket
rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cifar100(Cifar10):
    class_names: ClassVar[tuple[str, ...]] = tuple(_NAMES.split())
    normalisation: ClassVar[Normalisation] = CIFAR100
    archive: ClassVar[Published] = Published(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        unpacked="cifar-100-binary",
    )
    files: ClassVar[Files] = {"train": ("train.bin",), "test": ("test.bin",)}
    # The coarse label, then the fine one.
    label_bytes: ClassVar[int] = 2
