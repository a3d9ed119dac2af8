"""A denoiser in front of a frozen classifier: denoised smoothing (Salman et al. 2020)."""

from torch import Tensor, nn

from radii.models.base import InnerDenoiser, InnerModel, Shape, create_denoiser, create_inner
from radii.smoothing.normalisation import Normalisation


class Denoised(nn.Module):
    """Classifies the denoised image; only `denoiser` is trained.

    The classifier is always in eval mode and frozen, so its weights and statistics never change.
    """

    def __init__(self, denoiser: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.denoiser = denoiser
        self.classifier = classifier.requires_grad_(False)
        self.train()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.denoiser(images))
        return logits

    def train(self, mode: bool = True) -> "Denoised":
        super().train(mode)
        self.classifier.eval()
        return self


def denoised(
    shape: Shape,
    classes: int,
    normalisation: Normalisation,
    classifier: InnerModel,
    denoiser: InnerDenoiser = "dncnn",
) -> nn.Module:
    """A denoiser in front of a frozen classifier, for the images that the classifier takes.

    In a recipe, `classifier` is the path of a trained run. The denoiser takes pixels; the normalisation comes
    after it, as the classifier's first layer.
    """
    normalised = create_inner(classifier, shape=shape, classes=classes, normalisation=normalisation)
    return Denoised(create_denoiser(denoiser, shape), normalised)
