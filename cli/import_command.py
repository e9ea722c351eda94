"""The command `amqp-server import`: what was exported comes back into a queue.

Its options only: Arrow is imported when it runs, so that its help page does not need it.
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

Exit codes: 0 done, 1 it had to stop, 2 refused, 3 nothing new, 130 interrupted. Running it again
goes on where it was, and imports what is new in the output.""",
)
@click.option(
    "--queue", required=True, callback=check_utf8, help="The durable queue that gets them."
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
    help="The queue that was exported.  [default: the only one in the output]",
)
@click.option(
    "--source-vhost", metavar="NAME", callback=check_utf8, help="Its virtual host, if two have one."
)
@click.option("--since", type=click.IntRange(min=0), help="First offset.  [default: all]")
@click.option("--until", type=click.IntRange(min=0), help="End, exclusive.  [default: all]")
@click.option("--again", is_flag=True, help="Also what has come already: once more.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object when it is done.")
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

    In the order of their offsets, from Parquet, JSON lines or a table. Only the append time is
    new. Each comes once, however often the command runs and whatever is killed meanwhile.
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
