"""The command `amqp-server size`: what a broker needs for a load, as sums to check."""

import json
import math
from dataclasses import asdict, fields
from typing import Any, Final

import click

from amqp_server.base.config import BOUNDS, ServerConfig
from cli import sizing_advice, unit_costs
from cli.capacity import Load, Need, needs, shown_cores
from cli.data_directory import HELP
from cli.display import rough_size
from cli.table import write_table
from cli.units import DURATION, SIZE, CountType, format_duration, format_size

_DEFAULTS: Final = ServerConfig()
_LOAD: Final = {each.name: each.default for each in fields(Load)}
_YEARS_100_SECONDS: Final = 36_500 * 86_400
_RATE_MAX: Final = 100_000_000
_CHECK: Final = (
    "The processor's figures are those of the machine that was measured (AMD EPYC, 2 cores): "
    "`python -m bench traffic` measures yours.\n"
    "The other figures hardly depend on the machine: "
    "`python -m bench capacity` measures them."
)


@click.command(
    context_settings={**HELP, "show_default": True},
    epilog=(
        "Example: amqp-server size --messages-per-second 500 --message-bytes 2KiB --queues 200 "
        "--connections 400 --retain 7d. Exit codes: 0 shown, 2 refused."
    ),
)
@click.option(
    "--messages-per-second",
    type=click.FloatRange(min=0, max=_RATE_MAX),
    required=True,
    help="Messages that all publishers send, on average.",
)
@click.option("--message-bytes", type=SIZE, default="1KiB", help="Body of a message.")
@click.option(
    "--header-bytes",
    type=SIZE,
    default=str(unit_costs.HEADER_BYTES),
    help="Properties, headers and routing key of a message.",
)
@click.option(
    "--queues", type=CountType(1, 10_000_000), default=_LOAD["queues"], help="Durable queues."
)
@click.option(
    "--connections",
    type=CountType(0, int(BOUNDS["connections_max"].most)),
    default=_LOAD["connections"],
    help="Connections, each with a channel and a consumer.",
)
@click.option(
    "--fanout",
    type=click.FloatRange(min=0, max=100_000),
    default=_LOAD["fanout"],
    help="Queues that each message reaches.",
)
@click.option(
    "--backlog",
    "backlog_seconds",
    type=DURATION,
    default=format_duration(3600),
    help="Time for which consumers may stand still.",
)
@click.option(
    "--retain",
    "retain_seconds",
    type=DURATION,
    default="0",
    help="Time for which settled messages are kept: the server's --retain-for.",
)
@click.option(
    "--peak",
    type=click.FloatRange(min=1, max=1000),
    default=_LOAD["peak"],
    help="The busiest time, as a multiple of the average.",
)
@click.option(
    "--confirm-each",
    "is_confirm_each",
    is_flag=True,
    help="Each publisher waits for a confirm before its next message.",
)
@click.option(
    "--durability",
    type=click.Choice(["fsync", "write", "none"]),
    default="fsync",
    help="As the server's.",
)
@click.option(
    "--no-management", is_flag=True, help="Without the management server and its metrics."
)
@click.option(
    "--ring-bytes", type=SIZE, default=format_size(_DEFAULTS.ring_bytes), help="As the server's."
)
@click.option(
    "--ring-bytes-total",
    type=SIZE,
    default=format_size(_DEFAULTS.ring_bytes_total),
    help="As the server's.",
)
@click.option(
    "--segment-bytes",
    type=SIZE,
    default=format_size(_DEFAULTS.segment_bytes),
    help="As the server's.",
)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
def size(*, durability: str, no_management: bool, as_json: bool, **given: Any) -> int:  # noqa: ANN401 - each has the type of its option
    """Compute what a broker needs for a load: memory, disk, open files, processor.

    It asks no server: it multiplies measured costs, and shows each product. Of a message that waits
    or is kept, the disk has a copy for each queue that it reaches.
    """
    load = Load(is_synced=durability == "fsync", has_management=not no_management, **given)
    _check(load)
    if as_json:
        click.echo(json.dumps(_as_json(load), indent=2))
    else:
        _show(load)
    return 0


def _check(load: Load) -> None:
    """Refuse what no server takes.

    Raises:
        click.UsageError: An option is out of bounds; the message names it and its bounds.
    """
    bounds = {
        "--message-bytes": (load.message_bytes, 0, int(BOUNDS["max_message_bytes"].most)),
        "--header-bytes": (load.header_bytes, 0, int(BOUNDS["frame_bytes_max"].most)),
        **{
            f"--{name.replace('_', '-')}": (
                getattr(load, name),
                int(BOUNDS[name].least),
                int(BOUNDS[name].most),
            )
            for name in ("ring_bytes", "ring_bytes_total", "segment_bytes")
        },
    }
    for option, (value, least, most) in bounds.items():
        if not least <= value <= most:
            raise click.UsageError(
                f"{option}: {format_size(value)} is out of bounds: write {format_size(least)} to "
                f"{format_size(most)}"
            )
    for name in ("messages_per_second", "fanout", "peak"):
        if not math.isfinite(getattr(load, name)):
            raise click.UsageError(f"--{name.replace('_', '-')}: write a number")
    if load.ring_bytes > load.ring_bytes_total:
        raise click.UsageError("--ring-bytes-total: it must be at least --ring-bytes")
    for option, seconds in (("--backlog", load.backlog_seconds), ("--retain", load.retain_seconds)):
        if seconds > _YEARS_100_SECONDS:
            raise click.UsageError(
                f"{option}: it is out of bounds: write 0 to {format_duration(_YEARS_100_SECONDS)}"
            )


def _as_json(load: Load) -> dict[str, Any]:
    return {
        "load": asdict(load),
        "needs": [{**asdict(need), "total": need.total} for need in needs(load)],
        "shown_cores": shown_cores(load),
        "memory_max_bytes": sizing_advice.memory_max(load),
        "volume_bytes": sizing_advice.volume_bytes(load),
        "disk_free_limit_bytes": sizing_advice.free_limit(load),
        "open_files_limit": sizing_advice.file_limit(load),
        "settings": [asdict(each) for each in sizing_advice.settings(load)],
        "warnings": list(sizing_advice.warnings(load)),
    }


def _show(load: Load) -> None:
    header = ("NEED", "AMOUNT", "HOW")
    rows: list[tuple[str, str, str]] = []
    for need in needs(load):
        rows.append((need.name, _amount(need, need.total), "the sum of:"))
        rows += [
            (f"  {term.name}", _amount(need, term.amount), term.how)
            for term in need.terms
            if term.amount
        ]
    write_table(header, rows, right=("AMOUNT",))
    click.echo()
    chosen = [(each.name, each.value, each.why) for each in sizing_advice.settings(load)]
    write_table(("SET", "TO", "WHY"), chosen)
    click.echo()
    for line in sizing_advice.warnings(load):
        click.echo(f"warning: {line}")
    click.echo(_CHECK)


def _amount(need: Need, amount: float) -> str:
    if need.unit == "bytes":
        return rough_size(round(amount))
    return f"{amount:,.0f}" if need.unit == "files" else f"{amount:.3f} cores"
