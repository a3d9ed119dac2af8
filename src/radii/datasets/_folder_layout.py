"""Read the layout of a folder of photographs: class folders of splits, class folders alone, or list files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from radii.datasets._images import DataError, Split

SPLIT_NAMES: dict[Split, tuple[str, ...]] = {"train": ("train",), "test": ("val", "test")}
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"}
CLASSES_FILE = "classes.txt"
EXPECTED = "train/<class>/ and val/<class>/, or <class>/ alone for testing, or a list of paths and labels"


class ListedFile(NamedTuple):
    """A line of a list file."""

    path: Path
    label: str


@dataclass(frozen=True)
class Layout:
    """The splits of a folder, and the classes in the order of their labels."""

    splits: dict[Split, Path]
    """A folder of class folders, or a list file, for each split."""
    keys: tuple[str, ...]
    """The class folders' names, or the labels in a list."""
    class_names: tuple[str, ...]

    def listing(self, split: Split) -> tuple[list[str], list[int]]:
        """Return the photographs of a split, and their labels."""
        place = self.splits[split]
        if place.is_file():
            listed = _read_list(place)
            for file in listed:
                if not file.path.is_file():
                    raise DataError(f"{place} lists {file.path}, which does not exist: correct the list")
            return [str(file.path) for file in listed], [self.keys.index(file.label) for file in listed]
        files: list[str] = []
        labels: list[int] = []
        for label, key in enumerate(self.keys):
            photographs = _class_files(place / key)
            files += photographs
            labels += [label] * len(photographs)
        return files, labels


def read_layout(root: Path) -> Layout:
    """Read the layout of a folder or of a list file; photographs are not opened."""
    splits = _find_splits(root)
    keys = {split: _class_keys(place) for split, place in splits.items()}
    names = _read_class_names(root if root.is_dir() else root.parent)
    classes = sorted({key for split_keys in keys.values() for key in split_keys})
    if classes and all(key.isdecimal() for key in classes) and all(place.is_file() for place in splits.values()):
        return _numbered_layout(splits, names, max(map(int, classes)) + 1, root)
    if names:
        stated = tuple(key for key, _ in names)
        if unknown := [key for key in classes if key not in stated]:
            raise DataError(f"{root}: the class {unknown[0]} is not in {CLASSES_FILE}, expected every class there")
        if len(set(stated)) < len(stated):
            raise DataError(f"{root / CLASSES_FILE} names a class twice, expected one class a line")
        return Layout(splits, stated, _distinct([shown for _, shown in names], stated))
    _check_equal_classes(list(keys.values()), root)
    return Layout(splits, tuple(classes), tuple(classes))


def pictures_in(folder: Path) -> list[Path]:
    """Return the photographs in a folder and in the folders inside it, by name."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if _is_picture(path) and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


def _find_splits(root: Path) -> dict[Split, Path]:
    if root.is_file():
        return {"test": root}
    splits: dict[Split, Path] = {}
    for split, names in SPLIT_NAMES.items():
        candidates = [root / f"{name}{suffix}" for name in names for suffix in ("", ".txt")]
        if place := next((path for path in candidates if path.exists()), None):
            splits[split] = place
    if splits:
        return splits
    if any(_is_picture(file) for folder in _subfolders(root) for file in _visible(folder)):
        return {"test": root}
    if any(map(_is_picture, _visible(root))):
        raise DataError(f"{root} holds photographs without classes: put them into {root}/<class>/")
    raise DataError(f"{root} holds neither train/ nor val/ nor class folders with photographs, expected {EXPECTED}")


def _class_keys(place: Path) -> list[str]:
    """Return the keys of a split's classes: the names of class folders, or labels in a list."""
    if place.is_file():
        return sorted({file.label for file in _read_list(place)})
    folders = [folder.name for folder in _subfolders(place)]
    if not folders:
        raise DataError(f"{place} holds no class folders: put its photographs into {place}/<class>/")
    return folders


def _check_equal_classes(keys: Sequence[Sequence[str]], root: Path) -> None:
    if different := sorted(set(keys[0]) ^ set(keys[-1])):
        raise DataError(
            f"{root}: the class folder {different[0]} is in one split only, "
            f"expected in both, or every class in {CLASSES_FILE}"
        )


def _numbered_layout(splits: dict[Split, Path], names: list[tuple[str, str]], count: int, root: Path) -> Layout:
    """Return the layout of lists whose labels are numbers; the lines of classes.txt name them, starting at 0."""
    if names and len(names) < count:
        raise DataError(f"{root}: the label {count - 1} has no name, {CLASSES_FILE} has {len(names)} lines")
    keys = tuple(str(number) for number in range(len(names) or count))
    return Layout(splits, keys, _distinct([shown for _, shown in names], keys) or keys)


def _distinct(names: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """Add the key to names that two classes share, such as `crane` in ImageNet."""
    return tuple(f"{name} ({key})" if names.count(name) > 1 else name for name, key in zip(names, keys, strict=False))


def _read_class_names(folder: Path) -> list[tuple[str, str]]:
    """Read the classes in the order of classes.txt, each with the name to show, which may follow a tab."""
    file = folder / CLASSES_FILE
    lines = [line for line in _lines(file) if line] if file.is_file() else []
    return [(key.strip(), shown.strip() or key.strip()) for key, _, shown in (line.partition("\t") for line in lines)]


def _read_list(file: Path) -> list[ListedFile]:
    """Read the lines of a list: a path relative to the list, a tab or space, and the label."""
    listed = []
    for number, line in enumerate(_lines(file), start=1):
        if not line or line.startswith("#"):
            continue
        parts = line.rsplit("\t" if "\t" in line else None, 1)
        if len(parts) < 2:
            raise DataError(f"{file}, line {number}: expected a path, a tab or space, and a label")
        label = parts[1].strip()
        listed.append(ListedFile(file.parent / parts[0].strip(), str(int(label)) if label.isdecimal() else label))
    if not listed:
        raise DataError(f"{file} lists no photographs, expected lines of a path and a label")
    return listed


def _lines(file: Path) -> list[str]:
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8 text: write it as lines of a path and a label") from error


def _class_files(folder: Path) -> list[str]:
    if not folder.is_dir():  # classes.txt may name classes without photographs here
        return []
    files = [str(path) for path in _visible(folder) if _is_picture(path)]
    if not files:
        raise DataError(f"the class folder {folder} holds no photographs, expected .jpeg, .png and the like")
    return files


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if path.is_dir()]


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
