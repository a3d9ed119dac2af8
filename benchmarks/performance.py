"""docs/performance.md, written from measured numbers; each benchmark owns a section."""

import json
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
        "mnist_lenet": "MNIST, LeNet, 256 inputs a step, sigma 0.50; plain loop: eager Gaussian training",
        "cifar_resnet20": "CIFAR-sized images, ResNet-20, 128 inputs a step, sigma 0.25; plain loop: standard training",
    }
    for key, title in titles.items():
        rows = [
            [
                name,
                f"{row['seconds_per_epoch']:.1f}",
                f"{row['ratio_to_plain_loop']:.2f}",
                f"{row['published_ratio']:.1f}" if row["published_ratio"] else "",
                f"{row['share_of_published']:.2f}" if row["share_of_published"] else "",
            ]
            for name, row in numbers[key].items()
        ]
        header = ["method", "seconds an epoch", "over the plain loop", "published", "share of published"]
        parts.append(f"{title}.\n\n{_table(header, rows)}")
    return "\n\n".join(parts)


def _certification(numbers: dict[str, Any]) -> str:
    rows = []
    for model in ("lenet", "cifar_resnet20"):
        found = numbers[model]
        for engine, rate in found["samples_per_second"].items():
            rows.append(
                [
                    model,
                    engine,
                    f"{rate:,.0f}",
                    *(
                        f"{found[key][engine]:.2f}" if engine in found[key] else ""
                        for key in ("over_art", "over_plain_loop", "share_of_matrix_product")
                    ),
                ]
            )
    header = ["model", "engine", "samples a second", "over ART", "over a plain loop", "share of matrix product"]
    mnist, workers = numbers["mnist"], numbers["mnist"]["workers"]
    facts = [
        ["peak memory above the model's, n = 100,000", f"{numbers['memory']['peak_megabytes']:.0f} MB"],
        ["the same, ART", f"{mnist['art_peak_megabytes']:.0f} MB"],
        ["500 MNIST images at radius sigma, sequential", f"{mnist['seconds']:.1f} s"],
        [
            "the same, ART, n = 100,000, extrapolated from 3 images",
            f"{mnist['art_seconds_extrapolated_from_3_images']:.0f} s",
        ],
        ["speed-up", f"{mnist['speed_up']:.0f}"],
        ["samples an image", f"{mnist['samples_per_image']:.0f}"],
        ["two workers over one", f"{workers['speed_up']:.2f}"],
    ]
    priced = "```json\n" + json.dumps(numbers["pricing"], indent=2) + "\n```"
    return f"{_table(header, rows)}\n\n{_table(['what', 'measured'], facts)}\n\nSamples on published logs:\n\n{priced}"


SECTIONS = {"training": _training, "certification": _certification}
