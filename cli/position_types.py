"""Option types of browse, replay and offsets: positions in a log, and filters."""

import time

import click

from amqp_server.admin.offset_text import parse_offset_text
from amqp_server.broker.header_filter import parse_filter


class OffsetTextType(click.ParamType[str]):
    """Position in a log; see `amqp_server.admin.offset_text`."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text unchanged if it is a position.

        Raises:
            click.BadParameter: The text is not a position; the message shows valid ones.
        """
        text = str(value)
        try:
            parse_offset_text(text, time.time_ns())
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return text


class FilterType(click.ParamType[str]):
    """Header and its value."""

    name = "header=value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text unchanged if it is a filter.

        Raises:
            click.BadParameter: The text is not a filter.
        """
        try:
            parse_filter(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)
