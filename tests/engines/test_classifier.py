"""The smoothed classifier of any module: prepared by an engine, never of another function than its base."""

import pickle
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import radii
from radii.errors import ParameterError
from radii.smoothing.addresses import NoiseAddress
from tools.voters import plain

IMAGE = torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(0))
NOISE = NoiseAddress(0)


def small() -> nn.Sequential:
    """A convolution with BatchNorm, which is folded."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    model(torch.rand(64, 1, 8, 8))
    return model


def smoothed(model: nn.Module, **options: object) -> radii.SmoothedClassifier:
    return radii.SmoothedClassifier(model, sigma=0.5, classes=4, batch_size=32, **options)  # type: ignore[arg-type]


def votes(classifier: radii.SmoothedClassifier) -> list[int]:
    return [int(count) for count in classifier.votes(IMAGE, 320, NOISE)]


def of_base(model: nn.Module) -> list[int]:
    return votes(plain(model, IMAGE, sigma=0.5, classes=4, batch_size=32))


def test_own_module_is_folded_and_keeps_its_votes() -> None:
    model = small()
    found = smoothed(model)
    assert votes(found) == of_base(model)
    _, form = found.prepared_for(IMAGE)
    assert form is not model
    assert not any(isinstance(module, nn.BatchNorm2d) for module in form.modules())
    assert model.training, "the user's model is left as it was"


@pytest.mark.parametrize("engine", ["auto", "openvino", "onnx"])
def test_own_module_by_engine(engine: str) -> None:
    pytest.importorskip("onnxruntime" if engine == "onnx" else "openvino")
    model = small()
    difference = sum(abs(a - b) for a, b in zip(votes(smoothed(model, engine=engine)), of_base(model), strict=True))
    assert difference <= 4


def change_in_place(model: nn.Sequential) -> None:
    with torch.no_grad():
        model[4].weight.neg_()  # type: ignore[operator]


def change_unseen(model: nn.Sequential) -> None:
    model[4].weight.data.neg_()  # type: ignore[operator]


def add_a_hook(model: nn.Sequential) -> None:
    model[4].register_forward_hook(lambda _, __, logits: -logits)


def train_on(model: nn.Sequential) -> None:
    model.train()
    for _ in range(20):
        model(torch.rand(64, 1, 8, 8) * 9)


def replace_a_layer(model: nn.Sequential) -> None:
    model[4] = nn.Linear(288, 4)


@pytest.mark.parametrize("change", [change_in_place, change_unseen, add_a_hook, train_on, replace_a_layer])
def test_prepared_form_follows_the_base(change: object) -> None:
    model = small()
    found = smoothed(model)
    before = votes(found)
    change(model)  # type: ignore[operator]
    assert votes(found) == of_base(model) != before


def exchange_signs(weight: torch.Tensor) -> None:
    weight.data.neg_()


def exchange_rows(weight: torch.Tensor) -> None:
    weight.data.copy_(weight.data.flip(0))


@pytest.mark.parametrize("change", [exchange_signs, exchange_rows])
def test_weights_that_change_places_unseen_are_followed(change: object) -> None:
    model = small()
    with torch.no_grad():
        model[4].weight[:2] = 0.1  # type: ignore[operator]
        model[4].weight[2:] = -0.1  # type: ignore[operator]
    found = smoothed(model)
    before = votes(found)
    change(model[4].weight)  # type: ignore[operator]
    assert votes(found) == of_base(model) != before


def test_a_base_on_another_device_is_prepared_anew() -> None:
    classifier = radii.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), sigma=0.25, classes=10)
    pixels = torch.zeros(8, 8, 1)
    before = classifier._key(pixels)
    assert classifier._key(pixels) == before
    classifier.base.to("meta")
    assert classifier._key(pixels) != before


def test_plain_attribute_is_followed() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.scale = small(), 1.0

        def forward(self, images: Tensor) -> Any:
            return self.scale * self.body(images)

    model = Scaled()
    found = smoothed(model)
    before = votes(found)
    model.scale = -1.0
    assert votes(found) == of_base(model) != before


def test_model_whose_folded_form_would_fail_runs_as_it_is() -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.lock = small(), threading.Lock()

        def forward(self, images: Tensor) -> Any:
            return self.body(images)

    model = Stubborn()
    found = smoothed(model)
    assert votes(found) == of_base(model)
    assert found.prepared_for(IMAGE)[1] is model


def test_threads_may_share_it_before_it_is_prepared() -> None:
    found = smoothed(small())
    told: list[list[int]] = []
    threads = [threading.Thread(target=lambda: told.append(votes(found))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [of_base(found.base)] * 4


def test_pickled_classifier_votes_the_same() -> None:
    found = smoothed(small(), names=["a", "b", "c", "d"])
    before = votes(found)
    again = pickle.loads(pickle.dumps(found))
    assert (votes(again), again.names) == (before, ("a", "b", "c", "d"))


def test_several_image_sizes_are_prepared_each() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    found = smoothed(model)
    for size in (8, 12, 8):
        assert found.votes(torch.rand(1, size, size), 64, NOISE).sum() == 64


class LikeHuggingFace(nn.Module):
    """Takes `pixel_values` and returns an object with `logits`, as classifiers of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = small()

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> SimpleNamespace:
        if labels is not None:
            raise NotImplementedError
        return SimpleNamespace(loss=None, logits=self.body(pixel_values), hidden_states=None)


class LikeTimm(nn.Module):
    """forward_features and forward_head, with its settings in a dictionary, as models of timm and torchvision."""

    def __init__(self) -> None:
        super().__init__()
        self.pretrained_cfg = {"mean": (0.5,), "std": (0.5,), "input_size": (1, 8, 8)}
        self.features, self.head = small()[:4], nn.Linear(288, 4)

    def forward_features(self, images: Tensor) -> Any:
        return self.features(images)

    def forward(self, images: Tensor) -> Any:
        return self.head(torch.flatten(self.forward_features(images), 1))


@pytest.mark.parametrize("engine", ["torch", "openvino"])
@pytest.mark.parametrize("kind", [LikeHuggingFace, LikeTimm])
def test_models_off_the_shelf(kind: type[nn.Module], engine: str) -> None:
    if engine == "openvino":
        pytest.importorskip("openvino")
    model = kind()
    found = smoothed(model, engine=engine)
    difference = sum(abs(a - b) for a, b in zip(votes(found), of_base(model), strict=True))
    assert difference <= 4


@pytest.mark.parametrize("output", [lambda logits: (logits,), lambda logits: {"logits": logits}])
def test_other_outputs_are_a_sentence(output: object) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = small()

        def forward(self, images: Tensor) -> object:
            return output(self.body(images))  # type: ignore[operator]

    with pytest.raises(ValueError, match="expected one tensor of logits"):
        votes(smoothed(Wrapped()))


def test_random_model_is_still_named_as_such() -> None:
    class Random(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = small()

        def forward(self, images: Tensor) -> Any:
            return self.body(images) + torch.rand(len(images), 4)

    with pytest.raises(ValueError, match="not deterministic in eval mode"):
        votes(smoothed(Random()))


def test_other_threads_go_on_while_a_model_is_traced() -> None:
    other = small().eval()
    found: list[Any] = []

    class Busy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = small()

        def forward(self, images: Tensor) -> Any:
            if not isinstance(images, Tensor):  # it is being traced
                thread = threading.Thread(target=lambda: found.append(other(IMAGE[None])))
                thread.start()
                thread.join()
            return self.body(images)

    votes(smoothed(Busy()))
    assert [type(logits) for logits in found] == [Tensor]
    assert torch.equal(found[0], other(IMAGE[None]))


def test_engine_that_calibrates_needs_a_run() -> None:
    with pytest.raises(ValueError, match="'openvino_int8' needs training images to calibrate on"):
        smoothed(small(), engine="openvino_int8")


def test_too_little_memory_is_about_the_batch_size() -> None:
    class Large(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            raise torch.OutOfMemoryError("CUDA out of memory")

    classifier = radii.SmoothedClassifier(Large(), sigma=0.25, classes=2, batch_size=512)
    with pytest.raises(
        ParameterError, match="not enough memory for a pass of 1 noisy copies: state a smaller batch size"
    ):
        classifier.votes(torch.zeros(1, 4, 4), 10, NoiseAddress(0))
