"""docs/performance.md, written from measured numbers; each benchmark has a section."""

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
HEAD = "# Performance\n\nRatios measured in one run, written by `scripts/bench`; other machines give other numbers.\n"


def write_section(name: str, numbers: dict[str, Any]) -> str:
    """Replace the section of this benchmark on the page; returns its text."""
    text = f"## scripts/bench {name}\n\n{_machine(numbers['machine'])}\n\n{SECTIONS[name](numbers)}"
    page = PAGE.read_text() if PAGE.is_file() else HEAD
    head, *sections = page.split("\n## ")
    kept = {section.partition("\n")[0]: f"## {section}" for section in sections}
    kept[f"scripts/bench {name}"] = text
    PAGE.write_text("\n".join([head.rstrip() + "\n", *(kept[key].rstrip() + "\n" for key in sorted(kept))]))
    return text


def _machine(machine: dict[str, Any]) -> str:
    return f"{machine['cores']} cores, {machine['capability']}, {machine['system']}, torch {machine['torch']}."


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _training(numbers: dict[str, Any]) -> str:
    parts = []
    titles = {
        "mnist_lenet": "MNIST, LeNet, 256 inputs per step, sigma 0.50; plain loop: eager Gaussian training",
        "cifar_resnet20": (
            "CIFAR-sized images, ResNet-20, 128 inputs per step, sigma 0.25; plain loop: standard training"
        ),
    }
    for key, title in titles.items():
        rows = [
            [
                name,
                f"{row['seconds_per_epoch']:.1f}",
                f"{row['ratio_to_plain_loop']:.2f}",
                str(row["published_ratio"]) if row["published_ratio"] else "",
                f"{row['share_of_published']:.2f}" if row["share_of_published"] else "",
            ]
            for name, row in numbers[key].items()
        ]
        header = ["method", "seconds per epoch", "over the plain loop", "published", "share of published"]
        parts.append(f"{title}.\n\n{_table(header, rows)}")
    return "\n\n".join([*parts, CATRS, SMOOTHMIX, _student(numbers["mnist_student"])])


def _student(numbers: dict[str, Any]) -> str:
    rows = [
        [name, f"{row['seconds_per_epoch']:.1f}", f"{row['ratio_to_gaussian']:.2f}", f"{row['ratio_to_transfer']:.1f}"]
        for name, row in numbers.items()
    ]
    title = "A student: MNIST, LeNet of twice the width, 256 inputs per step; transfer from a LeNet"
    return f"{title}.\n\n{_table(['method', 'seconds per epoch', 'over gaussian', 'over transfer'], rows)}"


def _students(numbers: dict[str, Any]) -> str:
    header = ["student", "gaussian", "transfer", "smoothmix", "smoothmix over transfer"]
    rows = [
        [name, *(f"{value:.0f}" for value in found.values()), f"{found['smoothmix'] / found['transfer']:.1f}"]
        for name, found in numbers["students"].items()
    ]
    title = "Seconds per epoch of CIFAR-sized images, one thread, bfloat16, 128 images a step, sigma 0.25"
    return f"{title}; the architectures of docs/results.md.\n\n{_table(header, rows)}\n\n{_chain(numbers)}"


def _tape(numbers: dict[str, Any]) -> str:
    rows = []
    for name, seconds in numbers["students"].items():
        plain, *transfers = seconds.values()
        rows.append([name, f"{1000 * plain:.0f}", *(f"{each / plain:.2f}" for each in transfers)])
    header = ["student", "Gaussian step, ms", "with the teacher", "with a tape"]
    title = (
        "The price of transfer over Gaussian training of the same student: processor time of a step, CIFAR-sized "
        "images, one thread, bfloat16, 128 images a step, medians of steps in turns"
    )
    text = (
        f"The teacher is a `{numbers['teacher']}` of width 16. With a tape its size does not matter: an ensemble, a "
        "denoised pipeline or a large transformer runs for the first student only. At most 1.05 is aimed at, the "
        "price that the paper reports."
    )
    return f"{title}.\n\n{_table(header, rows)}\n\n{text}"


def _chain(numbers: dict[str, Any]) -> str:
    """Return the hours of a chain with its teacher, and the hours of training each of its models from scratch."""
    epochs, chain = numbers["epochs"], numbers["chain"]
    rows, spent, anew = [], 0.0, 0.0
    for generation, name in enumerate(chain):
        hours = {key: value * epochs[key] / 3600 for key, value in numbers["students"][name].items() if key in epochs}
        own = hours["transfer" if generation else "smoothmix"]
        spent, anew = spent + own, anew + hours["smoothmix"]
        cells = [f"{value:.2f}" for value in (own, hours["smoothmix"], spent, anew)]
        rows.append([str(generation), name, *cells, f"{100 * (1 - spent / anew):.1f} %"])
    header = ["generation", "model", "hours", "by SmoothMix", "all so far", "all by SmoothMix", "saved"]
    title = (
        f"A chain from a bootstrapped teacher ({epochs['smoothmix']} epochs of SmoothMix), {epochs['transfer']} epochs"
    )
    return f"{title} a student, in hours by the seconds above.\n\n{_table(header, rows)}"


def _certification(numbers: dict[str, Any]) -> str:
    return "\n\n".join([_forwards(numbers), _facts(numbers), _sample_cost(numbers["sample_cost"])])


def _forwards(numbers: dict[str, Any]) -> str:
    rows = []
    for model in ("lenet", "cifar_resnet20"):
        found = numbers[model]
        ratios = [found[key] for key in ("over_art", "over_plain_loop", "share_of_matrix_product")]
        for engine, rate in found["samples_per_second"].items():
            rest = [f"{ratio[engine]:.2f}" if engine in ratio else "" for ratio in ratios]
            rows.append([model, engine, f"{rate:,.0f}", *rest])
    header = ["model", "engine", "samples per second", "over ART", "over the plain loop", "share of a matrix product"]
    return f"Fixed n, forward passes of one image's noisy copies.\n\n{_table(header, rows)}"


def _facts(numbers: dict[str, Any]) -> str:
    mnist = numbers["mnist"]
    art_seconds = mnist["art_seconds_extrapolated_from_3_images"]
    facts = {
        "peak memory above the model's, n = 100,000": f"{numbers['memory']['peak_megabytes']:.0f} MB",
        "the same, ART": f"{mnist['art_peak_megabytes']:.0f} MB",
        "certified accuracy at sigma of 500 MNIST images, LeNet, `sequential`": f"{mnist['seconds']:.1f} s",
        "the same, ART, n = 100,000, extrapolated from 3 images": f"{art_seconds:,.0f} s",
        "speed-up": f"{mnist['speed_up']:,.0f}",
        "samples per image": f"{mnist['samples_per_image']:,.0f}",
        "two workers over one": f"{mnist['workers']['speed_up']:.2f}",
        "samples per second on the same LeNet, fixed n, two workers": f"{mnist['workers']['2 workers']:,.0f}",
        "the same over ART, n = 100,000": f"{mnist['fixed_over_art']:.1f}",
    }
    return _table(["what", "measured"], [list(fact) for fact in facts.items()])


def _sample_cost(cost: dict[str, Any]) -> str:
    one = cost["one radius"]
    compared = {f"radius {name}": one[name] for name in ("0.25", "0.5")} | {"grid to 1.75": cost["grid"]}
    rows = [
        [
            name,
            f"{found['samples']:,.0f}",
            f"{found['times_fewer']:.1f}",
            f"{min(found['accuracy_change'], key=lambda change: -abs(change)):+.3f}",
            f"{found['worst_accuracy_change']:+.3f}",
        ]
        for name, found in compared.items()
    ]
    header = ["decided", "mean samples", "times fewer than 100,000", "accuracy change, points", "worst log and radius"]
    mean = f"Radii 0.25 and 0.5 together: {one['times_fewer']:.1f} times fewer samples than 100,000."
    title = "`sequential` on the seven published CIFAR-10 logs that its schedule was tuned on, sigma 0.50"
    return f"{title}.\n\n{_table(header, rows)}\n\n{mean}"


def _distributed(numbers: dict[str, Any]) -> str:
    rows = [
        [case, name, f"{1000 * seconds:.1f}", f"{numbers[case]['speed_up'][name]:.2f}"]
        for case in ("lenet", "cifar_resnet20")
        for name, seconds in numbers[case]["seconds_per_step"].items()
    ]
    header = ["model", "trained by", "milliseconds per step", "two processes are faster by"]
    title = (
        "Gaussian training as the loop does it, batching included, LeNet with 256 and ResNet-20 with 128 images a step"
    )
    return f"{title}.\n\n{_table(header, rows)}\n\nCPUs and gloo; GPUs and nccl are not measured."


CATRS = (
    "CAT-RS attacks only images that it accepts, on a model without BatchNorm, so its cost rises as the model gets "
    "better: here LeNet has seen 200 steps of plain training, and the soft labels are synthetic."
)


SMOOTHMIX = (
    "A SmoothMix step attacks two copies in four steps and trains on two passes of two copies: counted in forward "
    "passes of one copy, with a backward pass as two, or one where no weights take gradients, that is 16 for the "
    "attack and 12 for the training, against 3 of standard training, 9.3 times. A profile of CPU time (ResNet-20, "
    "one thread, both through the same loop) gives 10.1: 5.9 for the attack, of which 2.6 forward, and 4.1 for the "
    "training, so there is nothing to save but passes. The published 4.97 is near 14 to 3, the passes without their "
    "copies: on the V100 two copies took little longer than one."
)


def _versions(numbers: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{found['median']:.3f}",
            f"{found['low']:.3f} to {found['high']:.3f}",
            f"{found['rounds']}",
            " and ".join(f"{size:.0f}" for size in found["megabytes"]),
        ]
        for name, found in numbers["settings"].items()
    ]
    header = ["setting", "median ratio", "95 % interval", "rounds", "peak MB, before and now"]
    return (
        "Certification with the engine `torch`, one process of one thread where nothing else is said: the time of this "
        f"version over that of 0.2.0 (commit {numbers['base']}), in rounds in which both take turns. It covers "
        "sampling, digests, checksums and the writing of rows, not the start of the command; with two workers, also "
        "the preparation of the classifier and the start of the workers.\n\n"
        f"{_table(header, rows)}"
    )


def _cluster(numbers: dict[str, Any]) -> str:
    header = ["samples per image", "one Dask worker", "two Dask workers", "two processes", "two Dask workers over one"]
    rows = [_cluster_row(each) for each in numbers["by_samples"]]
    return (
        "Images per second: 200 MNIST images, LeNet, engine torch, workers of one thread; the first 20 images, while "
        f"processes start, are left out.\n\n{_table([*header, 'over two processes of the local pool'], rows)}\n\n"
        f"At least 1.7 over one worker and 0.9 over the local pool are asked for{_cluster_misses(numbers)}. The "
        "client, the scheduler and the workers share the cores, so the shorter the images, the more of "
        "the time is Dask's."
    )


def _cluster_misses(numbers: dict[str, Any]) -> str:
    """Describe the lengths of images that miss the aim."""
    short = [each for each in numbers["by_samples"] if each["speed_up"] < 1.7 or each["over_the_pool"] < 0.9]
    return ": **missed** at " + " and ".join(f"{each['samples']:,} samples" for each in short) if short else ""


def _cluster_row(numbers: dict[str, Any]) -> list[str]:
    rates = [f"{rate:.2f}" for rate in numbers["images_per_second"].values()]
    return [f"{numbers['samples']:,}", *rates, f"{numbers['speed_up']:.2f}", f"{numbers['over_the_pool']:.2f}"]


def _serve(numbers: dict[str, Any]) -> str:
    rows = []
    for name, modes in numbers["subjects"].items():
        for mode, found in modes.items():
            loops = ", ".join(
                f"{loop} {alone['requests_per_second']:.1f} ({1000 * alone['cpu_seconds']:.1f} ms)"
                for loop, alone in found["loops"].items()
            )
            rows.append(
                [
                    name,
                    mode,
                    f"{found['requests_per_second']:.1f} ({1000 * found['cpu_seconds']:.1f} ms)",
                    f"{1000 * found['p50']:.0f} ms",
                    f"{1000 * found['p99']:.0f} ms",
                    f"{100 * found['in_time']:.1f} %",
                    f"{100 * found['abstained']:.1f} %, {100 * found['stopped']:.1f} % at the deadline",
                    loops,
                    f"{found['over_loop']:.1f}",
                    f"{found['megabytes_grown']:+.0f} MB in {found['requests']:,}",
                ]
            )
    header = ["model", "mode", "requests per second (CPU time of one)", "p50", "p99", "in time", "abstained", "loops"]
    deadlines = ", ".join(f"{1000 * seconds:.0f} ms for {name}" for name, seconds in numbers["deadlines"].items())
    title = (
        f"`radii serve` with evidence in a process of its own, asked over loopback by {numbers['clients']} clients at "
        f"once, each as soon as it has its answer; deadlines are {deadlines}. Loops answer one request after the other "
        "at the same failure probability, without HTTP and without evidence: by the server's certifier, and by `fixed` "
        "with 1,000 samples. Requests per second and the ratio count answers that no deadline ended. The clients share "
        "the cores with the server."
    )
    return f"{title}\n\n{_table([*header, 'over the best loop', 'memory grown'], rows)}"


def _serve_memory(numbers: dict[str, Any]) -> str:
    rows = [[f"{requests:,}", f"{megabytes:.0f}"] for requests, megabytes in numbers["megabytes"]]
    title = "`radii serve` with evidence, one pass a request, 16 clients: its resident memory while requests go on"
    return f"{title}.\n\n{_table(['requests', 'MB'], rows)}"


def _litserve(numbers: dict[str, Any]) -> str:
    rows = [
        [name, *(f"{rate:.1f}" for rate in rates.values()), f"{rates['radii serve'] / rates['LitServe']:.2f}"]
        for name, rates in numbers["requests_per_second"].items()
    ]
    title = (
        "One pass a request, 16 clients, requests per second: `radii serve` with evidence, on Starlette and uvicorn, "
        "and the same classifier behind LitServe, which batches up to 16 requests and keeps no evidence; in turn"
    )
    return f"{title}.\n\n{_table(['model', 'radii serve', 'LitServe', 'ratio'], rows)}"


def _gpu(numbers: dict[str, Any]) -> str:
    noise = numbers["noise"]
    rows = [
        [
            name,
            how,
            f"{found['samples_per_second']:,.0f}",
            f"{over:.2f}",
            "" if found["waits"] is None else str(found["waits"]),
        ]
        for name, rates in numbers["subjects"].items()
        for how, found in rates.items()
        for over in [found["samples_per_second"] / rates["plain loop"]["samples_per_second"]]
    ]
    checks = [
        ["random words are the CPU's, bit for bit", "yes" if noise["words_equal"] else "**no**"],
        ["grid noise is the CPU's, bit for bit", "yes" if noise["grid_equal"] else "**no**"],
        ["share of Gaussian numbers that differ from the CPU's", f"{noise['share_that_differs']:.2g}"],
        ["by at most", f"{noise['largest_difference']:.2g}"],
    ]
    header = ["model", "run by", "samples per second", "over the plain loop", "synchronisations in a question"]
    return f"{numbers['machine']['device']}.\n\n{_table(['check', 'found'], checks)}\n\n{_table(header, rows)}"


SECTIONS = {
    "gpu": _gpu,
    "serve_litserve": _litserve,
    "serve": _serve,
    "serve_memory": _serve_memory,
    "training": _training,
    "certification": _certification,
    "versions": _versions,
    "distributed": _distributed,
    "students": _students,
    "tape": _tape,
    "cluster": _cluster,
}
