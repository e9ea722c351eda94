"""The command `amqp-server status`: state of the running server."""

from pathlib import Path
from typing import Any

import click
import orjson

from cli.control import EXIT_CODES, ask_server, storage_path_option
from cli.display import shown

STALLS_SHOWN = 5
"""Stalls that are shown to people, the last ones; `--json` has more."""


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Example: amqp-server status --storage-path /var/lib/amqp-server. {EXIT_CODES}",
)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@storage_path_option
def status(storage_path: Path, *, as_json: bool) -> int:
    """Show the state of the running server.

    Version, process, address, uptime, alarms, and the numbers of virtual hosts, connections,
    channels, queues and ready messages.
    """
    found = ask_server(storage_path, "status")
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return 0
    click.echo(f"{found['product']} {found['version']}, process {found['pid']}")
    click.echo(f"listening on {found['host']}:{found['port']} for {found['uptime_seconds']:.0f} s")
    for each in found["listeners"]:
        is_first = (each["host"], each["port"]) == (found["host"], found["port"])
        if each["protocol"].startswith("amqp") and not is_first:
            how = " with TLS" if each["protocol"] == "amqp/ssl" else ""
            click.echo(f"listening on {each['host']}:{each['port']}{how}")
    if management := found.get("management"):
        _show_management(management)
    click.echo(f"alarms: {', '.join(found['alarms']) or 'none'}")
    for name in ("vhosts", "connections", "channels", "queues", "messages_ready"):
        click.echo(f"{name.replace('_', ' '):<16}{found[name]:>10}")
    if found["slow_readers_closed"]:
        click.echo(f"{'slow readers':<16}{found['slow_readers_closed']:>10} cut off")
    stalls = found["stalls"]
    if stalls["count"]:
        click.echo(
            f"{'stalls':<16}{stalls['count']:>10}, longest {stalls['longest_seconds']:.3f} s"
        )
        for stall in stalls["last"][-STALLS_SHOWN:]:
            click.echo(f"  {stall['at']}  {stall['seconds']:.3f} s  {shown(stall['what'])}")
    for each in found["damaged"]:
        name = each["encoded_name"] or "all"
        where = f"{each['kind']} {name} in vhost '{shown(each['vhost'])}'"
        click.echo(f"damaged: {where}: {shown(each['reason'])}")
    return 0


def _show_management(management: dict[str, Any]) -> None:
    state = "" if management["is_serving"] else " (not ready)"
    for url in management["urls"]:
        click.echo(f"management: {url}{state}")
    for url in management["metrics_urls"]:
        click.echo(f"metrics: {url}{state}")
    for each in management["waiting"]:
        name = "metrics" if each["kind"] == "metrics" else "management"
        click.echo(f"{name}: waits for port {each['port']} of {each['host']}: {each['reason']}")
