"""The command `amqp-server import`: puts exported messages back into a queue.

This module only has the options. Arrow is imported when the command runs, so that its help page
does not need it.
"""

from pathlib import Path

import click

from cli.control import check_utf8, storage_path_option
from cli.store_options import store_option


@click.command(
    "import",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  amqp-server import --queue orders --from ./lake
  amqp-server import --queue restored --from s3://lake/shop --source-queue orders --since 1200
  amqp-server import --queue orders --from ./lake --dry-run --json

Exit codes: 0 done, 1 stopped by an error, 2 refused, 3 nothing new, 130 interrupted. Another run
continues after the last one, and imports what is new in the output.""",
)
@click.option(
    "--queue", required=True, callback=check_utf8, help="Durable queue that gets the messages."
)
@click.option(
    "--vhost",
    default="/",
    show_default=True,
    callback=check_utf8,
    help="Virtual host of the queue.",
)
@click.option("--from", "uri", required=True, metavar="DIR|URI", help="Output of an export.")
@click.option(
    "--source-queue",
    metavar="NAME",
    callback=check_utf8,
    help="Queue that was exported.  [default: the only one in the output]",
)
@click.option(
    "--source-vhost", metavar="NAME", callback=check_utf8, help="Virtual host of the source queue."
)
@click.option("--since", type=click.IntRange(min=0), help="First offset.  [default: all]")
@click.option("--until", type=click.IntRange(min=0), help="End, exclusive.  [default: all]")
@click.option("--again", is_flag=True, help="Import also messages that were imported before.")
@click.option("--dry-run", is_flag=True, help="Only count the messages.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object at the end.")
@store_option
@storage_path_option
def import_messages(
    storage_path: Path,
    queue: str,
    vhost: str,
    uri: str,
    source_queue: str | None,
    source_vhost: str | None,
    since: int | None,
    until: int | None,
    store_options: tuple[str, ...],
    *,
    again: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Put exported messages into a queue of the running server, byte for byte.

    Imports from Parquet, JSON lines or a table, in the order of the offsets. Only the append time
    is new. Each message comes once, however often the command runs or is killed.
    """
    from cli.import_run import ImportRequest, run

    request = ImportRequest(
        storage_path,
        queue,
        vhost,
        uri,
        store_options,
        source_queue,
        source_vhost,
        since,
        until,
        again,
        dry_run,
    )
    return run(request, as_json=as_json)
