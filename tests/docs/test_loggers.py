"""The names of loggers stand in the source and on their page: no move of a module changes one."""

from __future__ import annotations

import re

from tests.docs.code_blocks import REPOSITORY
from tests.frozen.names import PRODUCT

_ROW = re.compile(r"^\| `([\w.]+)` \| .+ \|$", re.MULTILINE)
_LOGGER = re.compile(r"getLogger\((.*?)\)")


def arguments() -> dict[str, list[str]]:
    """Return what the modules of the product get loggers by."""
    found: dict[str, list[str]] = {}
    for package in PRODUCT:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for argument in _LOGGER.findall(path.read_text()):
                found.setdefault(argument, []).append(path.relative_to(REPOSITORY).as_posix())
    return found


def test_every_logger_has_its_name_in_the_source() -> None:
    computed = {name: places for name, places in arguments().items() if name[:1] not in ('"', "")}
    assert computed == {}, "write the name of the logger out, and add it to docs/loggers.md"


def test_the_page_lists_every_logger() -> None:
    own = {name.strip('"') for name in arguments() if name.strip('"').split(".")[0] in PRODUCT}
    assert set(_ROW.findall((REPOSITORY / "docs" / "loggers.md").read_text())) == own
