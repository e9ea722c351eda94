"""The command `python -m bench.storage NAME ...`: one sub-benchmark for each file."""

import importlib
import pkgutil

import click

import bench.storage
from bench.options import CONTEXT


def find_benchmarks() -> dict[str, click.Command]:
    """Return the sub-benchmarks by name: the command `benchmark` of each module that has one."""
    found: dict[str, click.Command] = {}
    for module in pkgutil.iter_modules(bench.storage.__path__):
        if not module.name.startswith("_"):
            name = module.name.replace("_", "-")
            loaded = importlib.import_module(f"bench.storage.{module.name}")
            if isinstance(command := getattr(loaded, "benchmark", None), click.Command):
                found[name] = command
    return found


main = click.Group(
    "bench.storage",
    commands=find_benchmarks(),
    help="Measure the storage packages alone, each beside a plain way in the same run.",
    context_settings=CONTEXT,
)
