"""Parsing of durations and sizes on the command line: `500ms`, `5s`, `16MiB`, `1024`."""

import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

import click

_QUANTITY: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)", re.ASCII)

_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?(%?)", re.ASCII)

SECONDS_PER_UNIT: Final[Mapping[str, Decimal]] = MappingProxyType(
    {
        "ms": Decimal("0.001"),
        "s": Decimal(1),
        "m": Decimal(60),
        "h": Decimal(3600),
        "d": Decimal(86_400),
    }
)

BYTES_PER_UNIT: Final[Mapping[str, int]] = MappingProxyType(
    {
        "": 1,
        "B": 1,
        "kB": 10**3,
        "KiB": 2**10,
        "MB": 10**6,
        "MiB": 2**20,
        "GB": 10**9,
        "GiB": 2**30,
        "TB": 10**12,
        "TiB": 2**40,
    }
)

_SIZE_UNITS: Final = {unit.lower(): number for unit, number in BYTES_PER_UNIT.items()}


class CountType(click.IntRange):
    """Whole number within bounds; larger numbers than the machine's are reduced to its maximum."""

    name = "integer"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse a count.

        Raises:
            click.BadParameter: The text is not a whole number, or is out of bounds.
        """
        # click's types claim that a value is a number already, but it is text of a command line.
        return min(int(super().convert(value, param, ctx)), sys.maxsize)  # type: ignore[arg-type]


class DurationType(click.ParamType[float]):
    """Duration: a number and one of ms, s, m, h, d; `0` needs no unit. Returns seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse a duration.

        Args:
            value: Text, or seconds if it is a number already.
            param: Parameter, for the error.
            ctx: Command, for the error.

        Returns:
            Seconds, 0 or more.

        Raises:
            click.BadParameter: The text is not a duration; the message shows valid ones.
        """
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        found = _QUANTITY.fullmatch(text)
        if found is None or (found[2] and found[2] not in SECONDS_PER_UNIT):
            self.fail(
                f"{text!r} is not a duration: write a number and ms, s, m, h or d, "
                "for example 500ms, 5s, 1m or 2h",
                param,
                ctx,
            )
        number = Decimal(found[1])
        if not found[2]:
            if number:
                self.fail(f"{text!r} has no unit: write {text}s, {text}ms or {text}m", param, ctx)
            return 0.0
        return float(number * SECONDS_PER_UNIT[found[2]])


class SizeType(click.ParamType[int]):
    """Number of bytes: plain, or with a decimal (kB, MB) or binary (KiB, MiB) unit."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse a size.

        Args:
            value: Text, or bytes if it is an integer already.
            param: Parameter, for the error.
            ctx: Command, for the error.

        Returns:
            Bytes, 0 or more.

        Raises:
            click.BadParameter: The text is not a size; the message shows valid ones.
        """
        if isinstance(value, int):
            return value
        text = str(value).strip()
        found = _QUANTITY.fullmatch(text)
        if found is None or found[2].lower() not in _SIZE_UNITS:
            self.fail(
                f"{text!r} is not a size: write bytes, or a number and KiB, MiB, GiB (1024) "
                "or kB, MB, GB (1000), for example 256KiB, 64MB or 1024",
                param,
                ctx,
            )
        size = Decimal(found[1]) * _SIZE_UNITS[found[2].lower()]
        if size != int(size):
            self.fail(f"{text!r} is not a whole number of bytes", param, ctx)
        return int(size)


class WatermarkType(click.ParamType[float]):
    """Memory: a share (`0.6`, `60%`) of what the process may use, or a size. Returns either."""

    name = "share or size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse a watermark.

        Args:
            value: Text, or a number that was parsed already.
            param: Parameter, for the error.
            ctx: Command, for the error.

        Returns:
            A share, up to 1, or bytes.

        Raises:
            click.BadParameter: The text is neither; the message shows valid ones.
        """
        if isinstance(value, int | float):
            return value
        found = _SHARE.fullmatch(str(value).strip())
        share = Decimal(found[1]) / (100 if found[2] else 1) if found else Decimal(0)
        if found is None or (share > 1 and not found[2]):
            return SIZE.convert(value, param, ctx)
        if share > 1:
            self.fail(
                f"{value!r} is more than all memory: write 60%, 0.6 or a size like 2GiB", param, ctx
            )
        return float(share)


class ShareType(click.ParamType[float]):
    """Share of a whole: `0.25` or `25%`. Returns a number up to 1."""

    name = "share"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse a share.

        Args:
            value: Text, or a number that was parsed already.
            param: Parameter, for the error.
            ctx: Command, for the error.

        Returns:
            0 to 1.

        Raises:
            click.BadParameter: The text is not a share; the message shows valid ones.
        """
        if isinstance(value, int | float):
            return value
        found = _SHARE.fullmatch(str(value).strip())
        share = Decimal(found[1]) / (100 if found[2] else 1) if found else Decimal(2)
        if share > 1:
            self.fail(f"{value!r} is not a share: write 0.25 or 25%", param, ctx)
        return float(share)


def format_watermark(watermark: float) -> str:
    """Format a watermark for `WatermarkType`.

    Args:
        watermark: A share up to 1, or bytes.
    """
    return f"{watermark:g}" if watermark <= 1 else format_size(int(watermark))


def format_duration(seconds: float) -> str:
    """Format a duration for `DurationType`, in the largest unit that fits it exactly.

    Args:
        seconds: 0 or more, in whole milliseconds.
    """
    exact = Decimal(str(seconds))
    for unit, length in reversed(list(SECONDS_PER_UNIT.items())):
        if exact and exact % length == 0:
            return f"{int(exact / length)}{unit}"
    return "0" if not exact else f"{exact / SECONDS_PER_UNIT['ms']}ms"


def format_size(size_bytes: int) -> str:
    """Format a size for `SizeType`, in the largest binary unit that fits it exactly.

    Args:
        size_bytes: 0 or more.
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % BYTES_PER_UNIT[unit] == 0:
            return f"{size_bytes // BYTES_PER_UNIT[unit]}{unit}"
    return str(size_bytes)


SHARE: Final = ShareType()
DURATION: Final = DurationType()
SIZE: Final = SizeType()
WATERMARK: Final = WatermarkType()
