"""Two processes that train together against one process that does the work of both."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore, Store

from radii import objectives
from radii.device import default_device
from radii.errors import ParameterError
from radii.models.denoised import Denoised
from radii.objectives import Batch, Objective, Step
from radii.runs.recipe import Recipe, Training
from radii.smoothing.addresses import generator
from radii.smoothing.streams import RowGenerator, Stream
from radii.training.batches import LocalBatch
from radii.training.batchnorm import SynchronisedBatchNorm, synchronise
from radii.training.ddp import (
    ALONE,
    PeerError,
    World,
    _choose_backend,
    agree_on_token,
    expect_same_recipe,
    join_world,
    leave_world,
)
from radii.training.muon import Muon
from radii.training.step import Loss, NotFiniteError, gradient_step
from tools.processes import warm_context

STEPS = 10
SIZES = [8, 7, 8, 7, 1]
"""Images of a step: equal and unequal halves, and a step in which rank 1 has none."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in objectives.names()},
    "smoothadv by ddn": ("smoothadv", {"attack": "ddn"}),
    "attacked consistency": ("consistency", {"attack_steps": 2}),
    "consistency after gaussian": ("consistency", {"gaussian_start": 0.3, "weight_ramp": 0.2}),
    "unused weights": ("gaussian", {}),
}


def classifier(seed: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)).double()


def denoised() -> nn.Module:
    layers = [nn.Conv2d(1, 2, 3, padding=1), nn.Softplus(), nn.Conv2d(2, 1, 3, padding=1)]
    return Denoised(nn.Sequential(*layers).double(), classifier(4))


class Spare(nn.Module):
    """A classifier that does not use some of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = classifier(), nn.Linear(2, 2).double()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.used(images)
        return logits


def rectified() -> nn.Module:
    """A classifier of layers that crown_ibp can bound."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)).double()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "crown_ibp": rectified,
    "denoising": denoised,
    "unused weights": Spare,
}
RESOURCES: dict[str, Callable[[], Any]] = {
    "teacher": lambda: classifier(5),
    "soft_labels": lambda: torch.rand((40, 3), generator=torch.Generator().manual_seed(6)).softmax(1),
}


def make_components(variant: str) -> tuple[Objective, nn.Module, torch.optim.Optimizer]:
    name, fields = VARIANTS[variant]
    resources = {key: RESOURCES[key]() for key in objectives.resources_of(name) if key in RESOURCES}
    torch.manual_seed(2)
    model = MODELS.get(variant, classifier)()
    return objectives.create(name, sigma=0.3, **fields, **resources), model, optimizer_of(model)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(trained, lr=0.05, momentum=0.9, weight_decay=1e-4)


def muon_of(model: nn.Module) -> torch.optim.Optimizer:
    return Muon(model, lr=0.01, momentum=0.9, weight_decay=1e-4, dtype=torch.float64)


def batch_of(indices: Tensor) -> Batch:
    rng = torch.Generator().manual_seed(7)
    images, labels = torch.rand((40, 1, 4, 4), generator=rng, dtype=torch.float64), torch.arange(40) % 3
    return Batch(images[indices], labels[indices], indices)


def indices_of(step: int, sizes: Sequence[int] = SIZES) -> Tensor:
    return torch.randperm(40, generator=torch.Generator().manual_seed(step))[: sizes[step % len(sizes)]]


def step_of(world: World, number: int) -> Step:
    return Step(20 + number, generator("cpu", "train", *world.address(0, 20, number)), number / STEPS)


def by_place(world: World, number: int) -> Step:
    """A step whose images have consecutive places in the epoch, as with training.stream = "philox"."""
    places, _ = world.split(torch.arange(len(indices_of(number))))
    rng = RowGenerator.beside(torch.Generator(), Stream.at("train", 0, number), int(places[0]))
    return Step(20 + number, rng, number / STEPS)


def normed() -> nn.Sequential:
    torch.manual_seed(8)
    layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Softplus(), nn.Flatten(), nn.Linear(12, 3), nn.BatchNorm1d(3)]
    model: nn.Sequential = nn.Sequential(*layers, nn.Linear(3, 3)).double()
    return model


def train_with(
    world: World,
    objective: Objective,
    model: nn.Module,
    sizes: Sequence[int] = SIZES,
    make_optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    make_step: Callable[[World, int], Step] = step_of,
) -> list[float]:
    """Return the losses of some steps, made as the training loop makes them."""
    optimizer, loss = (make_optimizer or optimizer_of)(model), world.wrap(Loss(objective, model))
    losses = []
    for number in range(STEPS):
        indices, weight = world.split(indices_of(number, sizes))
        part = LocalBatch(batch_of(indices), weight)
        losses.append(gradient_step(loss, optimizer, part, make_step(world, number), world=world).loss)
    return losses


# The pair of processes


def work(rank: int, folder: Path) -> None:
    """Do everything that needs two processes in one pair of them, and write the results for the tests."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'rendezvous'}", rank=rank, world_size=2)
    world = join_world()
    results: dict[str, Any] = {}
    for variant in VARIANTS:
        objective, model, _ = make_components(variant)
        losses = train_with(world, objective, model)
        results[variant] = {"losses": losses, "model": model.state_dict()}
        objective, model, _ = make_components(variant)
        losses = train_with(world, objective, model, make_step=by_place)
        results[f"{variant} by place"] = {"losses": losses, "model": model.state_dict()}
    standard = objectives.create("standard", sigma=0.3)
    for policy in ("local", "synchronised"):
        model = normed()
        if policy == "synchronised":
            synchronise(model)
        losses = train_with(world, standard, model, [8, 7, 5])
        results[policy] = {"losses": losses, "model": model.state_dict()}
    model = normed()
    synchronise(model)
    losses = train_with(world, standard, model, [8, 7, 5], muon_of)
    results["muon"] = {"losses": losses, "model": model.state_dict()}
    results["alone in a step"] = last_alone(world)
    results["words"] = words(world)
    results["changing"] = changing(world)
    results["shared_numbers"] = shared_numbers(world)
    torch.save(results, folder / f"rank-{rank}.pt")
    leave_world()
    os._exit(0)


def last_alone(world: World) -> dict[str, Tensor]:
    """Synchronised statistics after a step in which rank 1 has no image."""
    model = normed()[:2]
    synchronise(model)
    loss = world.wrap(Loss(Mean(sigma=0.3), model))
    indices, weight = world.split(torch.tensor([5]))
    gradient_step(loss, optimizer_of(model), LocalBatch(batch_of(indices), weight), step_of(world, 0), world=world)
    state: dict[str, Tensor] = model.state_dict()
    return state


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Objective):
    """The square of what a model gives, for each image."""

    def terms(self, model: nn.Module, batch: Batch, _: Step) -> dict[str, Tensor]:
        return {"square": model(batch.images).flatten(1).square().mean(1)}


def said_of_another_recipe(world: World) -> str:
    """What this rank says of a dataset elsewhere, of another learning rate, and of another teacher."""
    said = []
    for number in range(3):
        rate = 0.1 * (1 + world.rank * (number == 1))
        recipe = Recipe(
            dataset={"name": "mnist", "path": f"place {world.rank}"},
            model="lenet",
            sigma=0.25,
            training=Training(epochs=1, images_per_step=8, learning_rate=rate, initial=f"file {world.rank}"),
        )
        teacher = {"path": f"place {world.rank}", "hash": f"other {world.rank}" if number == 2 else "equal"}
        try:
            expect_same_recipe(world, recipe, {"teacher": teacher})
            said.append("the same")
        except ParameterError as error:
            said.append(str(error))
    return ", ".join(said)


def words(world: World) -> list[str]:
    """What this rank says when rank 0 fails, when it has other data, and when the loss of one rank is not a number."""

    def fail() -> None:
        raise ValueError("the run is taken")

    said = []
    try:
        world.broadcast_from_rank0(fail)
    except ValueError as error:
        said.append(f"{type(error).__name__}: {error}")
    try:
        world.expect_same("training images", f"digest {world.rank}")
        said.append("the same")
    except ParameterError as error:
        said.append(str(error))
    said.append(said_of_another_recipe(world))
    model = classifier()
    loss = world.wrap(Loss(objectives.create("standard", sigma=0.3), model))
    batch = batch_of(torch.arange(4))
    if not world.is_rank0:
        batch.images[0, 0, 0, 0] = torch.nan
    try:
        gradient_step(loss, optimizer_of(model), LocalBatch(batch), step_of(world, 0), world=world)
    except NotFiniteError as error:
        said.append(str(error))
    return said


class Sometimes(Spare):
    """A classifier that uses all its weights in every second step."""

    def forward(self, images: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        logits: Tensor = self.used(images)
        return logits + self.spare.weight.sum() if self.calls % 2 else logits


def shared_numbers(world: World) -> dict[str, Any]:
    """What a step with local BatchNorm shares, and how many exchanges it makes besides DDP's."""
    model = normed()
    loss, exchanges, reduce = world.wrap(Loss(Mean(sigma=0.3), model)), [], dist.all_reduce
    indices, weight = world.split(torch.arange(8))
    local = LocalBatch(batch_of(indices), weight)

    def counted(*args: Any, **kwargs: Any) -> Any:
        exchanges.append(1)
        return reduce(*args, **kwargs)

    dist.all_reduce = counted
    try:
        flags = [1.0 + world.rank, 0.0]
        result = gradient_step(loss, optimizer_of(model), local, step_of(world, 0), world=world, share=lambda: flags)
    finally:
        dist.all_reduce = reduce
    return {"numbers": result.shared, "exchanges": len(exchanges), "terms": list(result.terms)}


def changing(world: World) -> list[str]:
    """What is said of a model whose used weights change, and how many steps it made."""
    model = Sometimes()
    start = model.used[1].weight.clone()  # type: ignore[index]
    try:
        train_with(world, objectives.create("standard", sigma=0.3), model)
    except ParameterError as error:
        return [str(error), str(torch.equal(start, model.used[1].weight))]  # type: ignore[index]
    return []


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("pair")
    processes = [warm_context().Process(target=work, args=(rank, folder)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        if process.is_alive():
            process.kill()
    return [torch.load(folder / f"rank-{rank}.pt") for rank in range(2)]


def assert_close(actual: dict[str, Tensor], expected: dict[str, Tensor], rtol: float = 1e-12) -> None:
    assert actual.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(actual[key], tensor, rtol=rtol, atol=rtol * max(1e-3, float(tensor.abs().max())))


# What is compared with them


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_processes_train_as_one_that_does_both_halves(pair: list[dict[str, Any]], variant: str) -> None:
    objective, model, optimizer = make_components(variant)
    start = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    losses = []
    for number in range(STEPS):
        optimizer.zero_grad()
        losses.append(0.0)
        indices = indices_of(number)
        for rank, own in enumerate(indices.tensor_split(2)):
            if len(own):
                terms = objective.terms(model, batch_of(own), step_of(World(rank, 2), number))
                loss = torch.stack(list(terms.values())).sum() / len(indices)
                loss.backward()
                losses[-1] += loss.item()
        optimizer.step()
    for results in pair:
        assert_close(results[variant]["model"], model.state_dict())
        assert results[variant]["losses"] == pytest.approx(losses, rel=1e-12)
    assert any(not torch.equal(start[key], tensor) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_draws_by_place_two_processes_train_as_one(pair: list[dict[str, Any]], variant: str) -> None:
    objective, model, _ = make_components(variant)
    losses = train_with(ALONE, objective, model, make_step=by_place)
    # The attack of consistency normalises the gradient of a mean over the images of a process, up to 1e-8.
    tolerance = 1e-7 if variant == "attacked consistency" else 1e-10
    for results in pair:
        assert_close(results[f"{variant} by place"]["model"], model.state_dict(), tolerance)
        assert results[f"{variant} by place"]["losses"] == pytest.approx(losses, rel=tolerance)


def test_synchronised_batch_norm_normalises_by_the_whole_batch(pair: list[dict[str, Any]]) -> None:
    model = normed().train()
    losses = train_with(ALONE, objectives.create("standard", sigma=0.3), model, [8, 7, 5])
    for rank in pair:
        assert_close(rank["synchronised"]["model"], model.state_dict(), 1e-10)
        assert rank["synchronised"]["losses"] == pytest.approx(losses, rel=1e-10)
    other = pair[0]["local"]["model"]
    assert not torch.allclose(other["0.weight"], model.state_dict()["0.weight"], rtol=1e-6)


def test_muon_makes_the_steps_of_one_process(pair: list[dict[str, Any]]) -> None:
    model = normed().train()
    losses = train_with(ALONE, objectives.create("standard", sigma=0.3), model, [8, 7, 5], muon_of)
    for rank in pair:
        assert_close(rank["muon"]["model"], model.state_dict(), 1e-8)
        assert rank["muon"]["losses"] == pytest.approx(losses, rel=1e-8)


def test_rank_without_images_adds_nothing_to_synchronised_statistics(pair: list[dict[str, Any]]) -> None:
    model = normed()[:2]
    part = LocalBatch(batch_of(torch.tensor([5])))
    gradient_step(Loss(Mean(sigma=0.3), model), optimizer_of(model), part, step_of(ALONE, 0))
    for rank in pair:
        assert_close(rank["alone in a step"], model.state_dict(), 1e-10)


def test_running_statistics_are_the_same_on_every_rank(pair: list[dict[str, Any]]) -> None:
    first, second = (rank["local"]["model"] for rank in pair)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert pair[0]["local"]["losses"] == pair[1]["local"]["losses"]


def test_statistics_loss_and_shared_numbers_are_one_exchange(pair: list[dict[str, Any]]) -> None:
    for rank in pair:
        assert rank["shared_numbers"] == {"numbers": (3.0, 0.0), "exchanges": 1, "terms": ["square"]}


def test_synchronised_batch_norm_on_cuda_is_that_of_torch() -> None:
    model = normed()
    before = model.state_dict()
    synchronise(model, torch.device("cuda"))
    assert [type(layer) for layer in model if isinstance(layer, nn.modules.batchnorm._BatchNorm)] == [
        nn.SyncBatchNorm,
        nn.SyncBatchNorm,
    ]
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
    assert Loss(Mean(sigma=0.3), model).local_statistics() == []


@pytest.mark.parametrize(
    ("named", "rank", "expected"),
    [(None, 1, "cuda:1"), ("cuda", 2, "cuda:2"), ("cpu", 3, "cpu")],
)
def test_every_process_of_torchrun_gets_its_own_gpu(
    monkeypatch: pytest.MonkeyPatch, named: str | None, rank: int, expected: str
) -> None:
    chosen = under_torchrun(monkeypatch, named, rank)
    assert str(default_device()) == expected
    assert _choose_backend(rank) == ("gloo" if expected == "cpu" else "cpu:gloo,cuda:nccl")
    assert [str(device) for device in chosen] == ([] if expected == "cpu" else [expected])


def test_one_gpu_for_several_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    under_torchrun(monkeypatch, "cuda:0", 1)
    with pytest.raises(ParameterError, match="'cuda:0' is one GPU for 4 processes. Set it to 'cuda'"):
        _choose_backend(1)


def under_torchrun(monkeypatch: pytest.MonkeyPatch, named: str | None, rank: int) -> list[torch.device]:
    """Pretend to be a process of torchrun on a machine of four GPUs; return the GPUs that are then chosen."""
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.delenv("RADII_DEVICE", raising=False)
    variables = {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": str(rank)}
    for name, value in {**variables, **({"RADII_DEVICE": named} if named else {})}.items():
        monkeypatch.setenv(name, value)
    return chosen


def test_error_of_rank0_is_raised_on_all_ranks(pair: list[dict[str, Any]]) -> None:
    first, second = (rank["words"] for rank in pair)
    assert (first[0], second[0]) == ("ValueError: the run is taken", "PeerError: rank 0 has stopped: the run is taken")
    assert first[1] == "the same"
    assert second[1] == "rank 1 has other training images than rank 0: digest 1, expected digest 0"


def test_rank_with_another_recipe_or_teacher_is_refused(pair: list[dict[str, Any]]) -> None:
    first, second = (rank["words"] for rank in pair)
    assert first[2] == "the same, the same, the same"
    assert second[2] == ", ".join(
        (
            "the same",
            "rank 1 has another recipe than rank 0: training.learning_rate = 0.2, expected 0.1",
            "rank 1 has another teacher than rank 0: other 1, expected other 0",
        )
    )


def test_non_finite_loss_on_one_rank_stops_all_ranks(pair: list[dict[str, Any]]) -> None:
    for rank in pair:
        assert rank["words"][3].startswith("the loss is nan at epoch 20, step 0, in the term 'cross_entropy'")


def test_model_whose_used_parameters_change_is_refused(pair: list[dict[str, Any]]) -> None:
    for rank in pair:
        message, unmoved = rank["changing"]
        assert message.startswith("the set of parameters that get gradients changes between steps")
        assert message.endswith("train it in one process")
        assert unmoved == "False"  # the first step was good


# Without processes


@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_split_gives_every_image_to_one_rank_and_weights_that_make_the_mean(count: int, size: int) -> None:
    values = torch.rand(count, dtype=torch.float64)
    parts = [World(rank, size).split(torch.arange(count)) for rank in range(size)]
    counted = [int(index) for indices, weight in parts if weight for index in indices]
    assert counted == list(range(count))
    average = sum(weight * values[indices].mean() for indices, weight in parts) / size
    assert float(average) == pytest.approx(float(values.mean()), rel=1e-14)


def test_rank0_draws_as_one_process_does() -> None:
    assert World(0, 2).address(1, 2, 3) == ALONE.address(1, 2, 3) == (1, 2, 3)
    assert World(1, 2).address(1, 2, 3) == (1, 2, 3, 1)


def test_only_connection_errors_become_peer_errors() -> None:
    with pytest.raises(PeerError, match="the same command continues"), World(0, 2).peer_errors():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234")
    with pytest.raises(RuntimeError, match="shapes") as caught, World(0, 2).peer_errors():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    assert not isinstance(caught.value, PeerError)


def test_batch_norm_of_another_class_cannot_be_synchronised() -> None:
    class Own(nn.BatchNorm2d):
        pass

    with pytest.raises(ParameterError, match="'1' is a Own, which cannot be synchronised"):
        synchronise(nn.Sequential(nn.Conv2d(1, 3, 3), Own(3)))


def test_synchronised_layers_keep_weights_and_evaluate_as_before() -> None:
    model = normed().eval()
    images = batch_of(torch.arange(8)).images
    before, parameters = model(images), dict(model.named_parameters())
    synchronise(model)
    assert [type(layer) for layer in model if isinstance(layer, SynchronisedBatchNorm)]
    assert all(parameters[name] is parameter for name, parameter in model.named_parameters())
    assert torch.equal(model(images), before)


def tokens(store: Store, size: int) -> list[str]:
    """The tokens that ranks get from one store, as threads."""
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: agree_on_token(store, rank, size), reversed(range(size))))


def test_all_ranks_get_one_token() -> None:
    assert len(set(tokens(HashStore(), 4))) == 1


def test_token_and_ranks_of_an_earlier_attempt_are_not_used() -> None:
    store = HashStore()
    first = tokens(store, 3)
    for rank in (1, 2):  # these died before they got the token
        store.set(f"radii/rank/{rank}", "dead")
    second = tokens(store, 3)
    assert len(set(second)) == 1
    assert set(first).isdisjoint(second)
