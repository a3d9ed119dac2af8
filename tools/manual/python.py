"""The reference of the public names in Python, from their docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import radii
from tools.manual.components import field_table

WIDTH = 88


def reference() -> str:
    """Every public name with its signature and what it says of itself."""
    return "\n\n".join(_entry(name, getattr(radii, name)) for name in radii.__all__)


def _entry(name: str, found: Any) -> str:
    if inspect.ismodule(found) and not callable(found):
        return "\n\n".join([f"## `{name}`", _text(found), *(_function(name, key, found) for key in _public(found))])
    if not callable(found):
        return f"## `{name}`\n\n`{found!r}`"
    if inspect.ismodule(found):
        found = getattr(found, name)
    parts = [f"## `{name}`", _signature(f"radii.{name}", found), _text(found)]
    if inspect.isclass(found):
        parts += [field_table(found)] if dataclasses.is_dataclass(found) else []
        parts += [_member(name, key, member) for key, member in _members(found)]
    return "\n\n".join(filter(None, parts))


def _public(module: Any) -> list[str]:
    return list(getattr(module, "__all__", ()))


def _function(owner: str, key: str, module: Any) -> str:
    found = getattr(module, key)
    return f"{_signature(f'radii.{owner}.{key}', found)}\n\n{_text(found)}" if callable(found) else ""


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The documented public methods and properties, in the order of the source."""
    for key, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if key[0] != "_" and inspect.getdoc(plain) and (inspect.isfunction(plain) or isinstance(plain, property)):
            yield key, plain


def _member(owner: str, key: str, member: Any) -> str:
    if isinstance(member, property):
        return f"**`{owner}.{key}`** — {_text(member)}"
    return f"{_signature(f'{owner}.{key}', member)}\n\n{_text(member)}"


def _signature(name: str, found: Callable[..., Any]) -> str:
    """The call as a code block, one parameter a line where it is long."""
    try:
        signature = inspect.signature(found)
    except ValueError:
        return ""
    parts, result = _parameters(signature), _result(signature)
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) > WIDTH:
        line = "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){result}"])
    return f"```python\n{line}\n```"


def _parameters(signature: inspect.Signature) -> list[str]:
    """The parameters as they are written in a definition, with the star before those that need their name."""
    shown = [each for each in signature.parameters.values() if each.name != "self"]
    named = [each.kind is each.KEYWORD_ONLY for each in shown]
    star = named.index(True) if True in named and not any(each.kind is each.VAR_POSITIONAL for each in shown) else None
    parts = [_short(str(each)) for each in shown]
    return parts if star is None else [*parts[:star], "*", *parts[star:]]


def _result(signature: inspect.Signature) -> str:
    known = signature.return_annotation not in (signature.empty, None)
    return f" -> {_short(inspect.formatannotation(signature.return_annotation))}" if known else ""


def _short(annotation: str) -> str:
    """An annotation without the modules of its names."""
    plain = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", annotation)
    plain = re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]", r"NDArray[\1]", plain)
    return re.sub(r"<function .*>", "...", plain)


def _text(found: Any) -> str:
    """A docstring as Markdown: its examples as code."""
    text = inspect.getdoc(found) or ""
    return re.sub(r"^>>> .*(?:\n.+)*", lambda example: f"```python\n{example[0]}\n```", text, flags=re.MULTILINE)
