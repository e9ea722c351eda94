"""How the commands are told how to reach object stores."""

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
    help="How object stores are reached, such as endpoint=http://host:9000; may be repeated.  "
    "Credentials are better in the environment.",
)


def reach_stores(texts: Iterable[str], **places: str | Path | None) -> StoreOptions:
    """Return the options of texts `KEY=VALUE`, for places of which one is an object store.

    Args:
        texts: As they were given.
        places: What was given to each option that names a place, by its name; None: nothing.

    Raises:
        StoreError: A text is no option, or there is no store that could be reached with it.
    """
    options = StoreOptions.parse(texts)
    stores = [Location.of(Path(place)) for place in places.values() if place is not None]
    if options.pairs and not any(stores):
        names = " or ".join(f"--{name.strip('_').replace('_', '-')}" for name in places)
        raise StoreError(f"--store-option: there is no object store in {names}")
    return options
