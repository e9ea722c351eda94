"""The shape of JSON: which fields there are, and their types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

ABSENT: Final = "nothing"
Deviation = tuple[str, object, object]
"""Way to a field, what was expected there, what was found."""


def shape(value: object) -> object:
    """Return the types of a JSON value: names of types, `{key: shape}`, `[shape]`.

    All items of a list are one shape. A key that not each of its objects has ends in `?`; of
    several types the names stand beside one another, between `|`.
    """
    if value is None:
        return "null"
    if isinstance(value, dict):
        return {key: shape(held) for key, held in sorted(value.items())}
    if isinstance(value, list):
        merged: object = None
        for item in value:
            merged = shape(item) if merged is None else _merge(merged, shape(item))
        return [] if merged is None else [merged]
    return type(value).__name__


def _merge(one: object, other: object) -> object:
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return _merge_objects(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0])] if one and other else one or other
    names = {name for each in (one, other) for name in _names(each)}
    return "|".join(sorted(names))


def _merge_objects(one: dict[str, object], other: dict[str, object]) -> dict[str, object]:
    merged: dict[str, object] = {}
    for key in sorted({name.rstrip("?") for name in (*one, *other)}):
        found = [each.get(key, each.get(f"{key}?")) for each in (one, other)]
        is_always = key in one and key in other
        present = [each for each in found if each is not None]
        merged[key if is_always else f"{key}?"] = (
            _merge(*present) if len(present) == 2 else present[0]
        )
    return merged


def _names(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split("|")
    return ["object" if isinstance(value, dict) else "list"]


def deviations(place: str, expected: object, found: object) -> Iterator[Deviation]:
    """Yield where a shape lacks what another one has, or has other types.

    Fields that were not expected are no deviation, nor is an integer instead of a float, nor
    nothing instead of `null`.
    """
    if isinstance(expected, dict):
        if isinstance(found, dict):
            yield from _of_objects(place, expected, found)
        else:
            yield place, "an object", found
    elif isinstance(expected, list):
        if not isinstance(found, list) or (expected and not found):
            yield place, "a list", found
        elif expected:
            yield from deviations(f"{place}[]", expected[0], found[0])
    else:
        allowed = set(_names(expected))
        types = set(_names(found))
        if "float" in allowed:
            allowed.add("int")
        if not types <= allowed:
            yield place, expected, found


def _of_objects(
    place: str, expected: dict[str, object], found: dict[str, object]
) -> Iterator[Deviation]:
    for key, held in expected.items():
        name = key.rstrip("?")
        below = f"{place}.{name}"
        is_needed = key == name and "null" not in _names(held)
        if name in found:
            yield from deviations(below, held, found[name])
        elif f"{name}?" in found:
            if is_needed:
                yield below, "always there", "not always there"
            yield from deviations(below, held, found[f"{name}?"])
        elif is_needed:
            yield below, held, ABSENT
