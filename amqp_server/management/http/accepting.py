"""Whether a client takes JSON: the header Accept."""

from __future__ import annotations

from typing import Final

_TYPES: Final = ("application/json", "application/*", "*/*")
"""From the most to the least specific."""


def accepts_json(header: str | None) -> bool:
    """Return whether a client with this header takes JSON; without one it takes everything.

    Types that the API does not have, such as `application/bert`, are passed over.
    """
    if header is None or not header.strip():
        return True
    weights: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        weight = 1.0
        for parameter in parameters:
            key, _, text = parameter.partition("=")
            if key.strip() == "q":
                try:
                    weight = float(text)
                except ValueError:
                    weight = 0.0
        weights[name] = weight
    return next((weights[name] > 0 for name in _TYPES if name in weights), False)
