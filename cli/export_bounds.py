"""Start and end of an export, as users write them."""

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from amqp_server.broker.age_text import age_ns

if TYPE_CHECKING:
    from appendlog.spark.planning.bounds import Bound

HOW_WRITTEN: Final = (
    "an offset (1200), a time (2026-11-21, 2026-11-21T18:00:00+01:00; UTC unless it says "
    "otherwise), or an age (30s, 15m, 2h, 7D)"
)
LAST: Final = "last"
_NAMED: Final = {"first": "earliest", "next": "latest"}
_AGE: Final = re.compile(r"([0-9]+[A-Za-z]+)(?: +ago)?")


@dataclass(frozen=True, slots=True)
class Since:
    """Start of an export.

    Attributes:
        bound: Position in a log; None means the end of the last export.
    """

    bound: "Bound | None"


class BoundType(click.ParamType["Bound"]):
    """Position in a log: an offset, a time, an age, `earliest` or `latest`."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Bound":
        """Parse a position.

        Raises:
            click.BadParameter: The text is not a position; the message shows valid ones.
        """
        # Imported here: the help page needs no library of the extra.
        from appendlog.spark.errors import BoundError
        from appendlog.spark.planning.bound_texts import parse_offset_or_time
        from appendlog.spark.planning.bounds import Bound

        text = str(value).strip()
        age = _AGE.fullmatch(text)
        length_ns = age and age_ns(age[1].encode())
        if length_ns:
            return Bound.at_time(max(time.time_ns() - length_ns, 0))
        try:
            bound = parse_offset_or_time(_NAMED.get(text, text))
        except BoundError:
            self.fail(f"{text!r} is no place in a log: write {HOW_WRITTEN}", param, ctx)
        if text.startswith("-"):
            self.fail(f"{text!r}: write earliest or latest, or {HOW_WRITTEN}", param, ctx)
        return bound


class SinceType(click.ParamType[Since]):
    """Position in a log, or `last`."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Since:
        """Parse a position.

        Raises:
            click.BadParameter: The text is not a position; the message shows valid ones.
        """
        if str(value).strip() == LAST:
            return Since(None)
        return Since(BoundType().convert(value, param, ctx))
