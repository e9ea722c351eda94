"""Option types that browse, replay and offsets share: places in a log, and filters."""

import time

import click

from amqp_server.broker.header_filter import parse_filter
from amqp_server.offset_text import parse_offset_text


class OffsetTextType(click.ParamType[str]):
    """A place in a log; see `amqp_server.offset_text`."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text as it is, if it is one.

        Raises:
            click.BadParameter: It is none; the message shows how one is written.
        """
        text = str(value)
        try:
            parse_offset_text(text, time.time_ns())
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return text


class FilterType(click.ParamType[str]):
    """A header and its value."""

    name = "header=value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text as it is, if it is one.

        Raises:
            click.BadParameter: It is none.
        """
        try:
            parse_filter(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)
