"""Where the photographs of a folder lie: class folders of splits, class folders alone, or list files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from radii.datasets.base import DataError, Split

PLACES: dict[Split, tuple[str, ...]] = {"train": ("train",), "test": ("val", "test")}
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"}
NAMES = "classes.txt"
EXPECTED = "train/<class>/ and val/<class>/, or <class>/ alone for testing, or a list of paths and labels"


class Entry(NamedTuple):
    """A line of a list file."""

    file: Path
    label: str


@dataclass(frozen=True)
class Layout:
    """The splits that are there, and the classes in the order of their labels."""

    places: dict[Split, Path]
    """A folder of class folders, or a list file."""
    keys: tuple[str, ...]
    """What a class is called in the files: the name of its folder, or its label in a list."""
    class_names: tuple[str, ...]

    def listing(self, split: Split) -> tuple[list[str], list[int]]:
        """The photographs of a split with their labels."""
        place = self.places[split]
        if place.is_file():
            entries = _entries(place)
            for entry in entries:
                if not entry.file.is_file():
                    raise DataError(f"{place} lists {entry.file}, which is not there: correct the list")
            return [str(entry.file) for entry in entries], [self.keys.index(entry.label) for entry in entries]
        found = [(file, label) for label, key in enumerate(self.keys) for file in _of_class(place / key)]
        return [file for file, _ in found], [label for _, label in found]


def open_layout(root: Path) -> Layout:
    """The layout of a folder or of a list file; nothing but names is read."""
    places = _places(root)
    found = {split: _keys(place) for split, place in places.items()}
    named = _named(root if root.is_dir() else root.parent)
    every = sorted({key for keys in found.values() for key in keys})
    if every and all(key.isdecimal() for key in every) and all(place.is_file() for place in places.values()):
        return _numbered(places, named, max(map(int, every)) + 1, root)
    if named:
        if unknown := [key for key in every if key not in named]:
            raise DataError(f"{root}: the class {unknown[0]} is not in {NAMES}, expected every class there")
        return Layout(places, tuple(named), tuple(named.values()))
    _expect_equal(list(found.values()), root)
    return Layout(places, tuple(every), tuple(every))


def pictures_in(folder: Path) -> list[Path]:
    """The photographs in a folder and in the folders inside it, by name."""
    return [path for path in sorted(folder.rglob("*")) if _is_picture(path) and not _is_hidden(path, folder)]


def _places(root: Path) -> dict[Split, Path]:
    if root.is_file():
        return {"test": root}
    found: dict[Split, Path] = {}
    for split, names in PLACES.items():
        offered = [root / f"{name}{suffix}" for name in names for suffix in ("", ".txt")]
        if place := next((path for path in offered if path.exists()), None):
            found[split] = place
    if found:
        return found
    if any(_is_picture(file) for folder in _folders(root) for file in _visible(folder)):
        return {"test": root}
    if any(map(_is_picture, _visible(root))):
        raise DataError(f"{root} holds photographs without classes: put them into {root}/<class>/")
    raise DataError(f"{root} holds neither train/ nor val/ nor class folders with photographs, expected {EXPECTED}")


def _keys(place: Path) -> list[str]:
    """The classes of a split, as its files call them."""
    if place.is_file():
        return sorted({entry.label for entry in _entries(place)})
    folders = [folder.name for folder in _folders(place)]
    if not folders:
        raise DataError(f"{place} holds no class folders: put its photographs into {place}/<class>/")
    return folders


def _expect_equal(found: Sequence[Sequence[str]], root: Path) -> None:
    if odd := sorted(set(found[0]) ^ set(found[-1])):
        raise DataError(
            f"{root}: the class folder {odd[0]} is in one split only, expected in both, or every class in {NAMES}"
        )


def _numbered(places: dict[Split, Path], named: dict[str, str], count: int, root: Path) -> Layout:
    """The layout of lists whose labels are numbers: the lines of classes.txt are their names, from 0 on."""
    if named and len(named) < count:
        raise DataError(f"{root}: the label {count - 1} has no name, {NAMES} has {len(named)} lines")
    keys = tuple(str(number) for number in range(len(named) or count))
    return Layout(places, keys, tuple(named.values()) or keys)


def _named(folder: Path) -> dict[str, str]:
    """The classes that classes.txt names in order, each with the name to show, which may follow a tab."""
    file = folder / NAMES
    lines = [line for line in _lines(file) if line] if file.is_file() else []
    pairs = [(key.strip(), shown.strip() or key.strip()) for key, _, shown in (line.partition("\t") for line in lines)]
    if len({key for key, _ in pairs}) < len(pairs):
        raise DataError(f"{file} names a class twice, expected one class a line")
    return dict(pairs)


def _entries(file: Path) -> list[Entry]:
    """The lines of a list: a path relative to the list, a tab or space, and the label."""
    found = []
    for number, line in enumerate(_lines(file), start=1):
        if not line or line.startswith("#"):
            continue
        parts = line.rsplit("\t" if "\t" in line else None, 1)
        if len(parts) < 2:
            raise DataError(f"{file}, line {number}: expected a path, a tab or space, and a label")
        label = parts[1].strip()
        found.append(Entry(file.parent / parts[0].strip(), str(int(label)) if label.isdecimal() else label))
    if not found:
        raise DataError(f"{file} lists no photographs, expected lines of a path and a label")
    return found


def _lines(file: Path) -> list[str]:
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not a text of paths and labels: it is not UTF-8") from error


def _of_class(folder: Path) -> Iterable[str]:
    if not folder.is_dir():  # classes.txt may name classes that these photographs are not of
        return []
    files = [str(path) for path in _visible(folder) if _is_picture(path)]
    if not files:
        raise DataError(f"the class folder {folder} holds no photographs, expected .jpeg, .png and the like")
    return files


def _folders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if path.is_dir()]


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
