"""Where this server answers otherwise than RabbitMQ 3.10 on purpose, each with its reason."""

from typing import Final, NamedTuple


class Wanted(NamedTuple):
    """A difference that is meant.

    Attributes:
        title: Pattern that is found in the titles of steps.
        place: Pattern of the whole place.
        reason: Why.
    """

    title: str
    place: str
    reason: str


WANTED: Final[tuple[Wanted, ...]] = ()
