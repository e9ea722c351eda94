"""Options of the commands for access to object stores."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.store_options import StoreOptions

_F = TypeVar("_F", bound=Callable[..., Any])

store_option: Final[Callable[[_F], _F]] = click.option(
    "--store-option",
    "store_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the object stores, such as endpoint=http://host:9000; may be repeated.  "
    "Prefer the environment for credentials.",
)


def reach_stores(texts: Iterable[str], **places: str | Path | None) -> StoreOptions:
    """Parse texts `KEY=VALUE`, for places of which one must be an object store.

    Args:
        texts: Texts as given.
        places: Value of each option that names a place, by its name; None if not given.

    Raises:
        StoreError: A text is not an option, or no place is an object store.
    """
    options = StoreOptions.parse(texts)
    stores = [Location.of(Path(place)) for place in places.values() if place is not None]
    if options.pairs and not any(stores):
        names = " or ".join(f"--{name.strip('_').replace('_', '-')}" for name in places)
        raise StoreError(f"--store-option: there is no object store in {names}")
    return options
