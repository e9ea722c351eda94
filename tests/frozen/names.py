"""Names that users type or parse: commands, settings, metrics, loggers, entry points, modules."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import amqp_server
from cli.main import command as server_command

REPOSITORY: Final = Path(amqp_server.__file__).resolve().parent.parent
PRODUCT: Final = (
    "amqp_server",
    "appendlog",
    "cli",
    "metadata",
    "offsets",
    "pyspark_amqplog",
    "ring",
)
_LOGGER: Final = re.compile(r"getLogger\(\s*(f?\"[^\"]*\"|__name__)")
_IMPORT: Final = re.compile(
    rf"^from ((?:{'|'.join(PRODUCT)})[\w.]*) import (\([^)]*\)|[\w, ]+)$", re.MULTILINE
)


def helps() -> str:
    """Return the help page of every command, one below the other."""
    return "\n".join(_helps("amqp-server", server_command, None))


def _helps(name: str, found: click.Command, parent: click.Context | None) -> Iterator[str]:
    context = found.make_context(name, [], parent, resilient_parsing=True)
    context.terminal_width = 100
    yield f"$ {context.command_path} --help\n{found.get_help(context)}\n"
    if isinstance(found, click.Group):
        for each in found.list_commands(context):
            inner = found.get_command(context, each)
            assert inner is not None, each
            yield from _helps(each, inner, context)


def loggers() -> list[str]:
    """Return the names of all loggers, as they stand in the source."""
    found = set()
    for package in PRODUCT:
        for path in (REPOSITORY / package).rglob("*.py"):
            module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
            for name in _LOGGER.findall(path.read_text()):
                found.add(module if name == "__name__" else name.strip('"'))
    return sorted(found)


def entry_points() -> list[str]:
    """Return what the package installs: its commands and its plugins, with what they name."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    points = {"scripts": project["scripts"], **project["entry-points"]}
    return [
        f"{group}: {name} = {value}" for group in points for name, value in points[group].items()
    ]


def modules_to_start() -> list[str]:
    """Return the modules that `python -m` starts."""
    mains = [path for package in PRODUCT for path in (REPOSITORY / package).rglob("__main__.py")]
    guarded = [
        path
        for package in PRODUCT
        for path in (REPOSITORY / package).rglob("*.py")
        if '__name__ == "__main__"' in path.read_text()
    ]
    names = {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__main__")
        for path in (*mains, *guarded)
    }
    return sorted(names)


def imports_of_pages() -> list[str]:
    """Return what programs on the pages import from the product; each must be there."""
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    names = {
        f"{module}: {name}"
        for page in pages
        for module, imported in _IMPORT.findall(page.read_text())
        for name in re.findall(r"\w+", imported)
    }
    for each in names:
        module, name = each.split(": ")
        assert hasattr(importlib.import_module(module), name), each
    return sorted(names)
