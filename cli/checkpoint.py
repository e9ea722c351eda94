"""The command `amqp-server checkpoint`: what is settled goes to the disk now."""

from pathlib import Path

import click
import orjson

from cli.control import EXIT_CODES, ask_server, storage_path_option


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Example: amqp-server checkpoint --storage-path /var/lib/amqp-server. {EXIT_CODES}",
)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@storage_path_option
def checkpoint(storage_path: Path, *, as_json: bool) -> int:
    """Have the running server write what is settled to the disk, whatever its interval is.

    Returns when it is there: no message that was settled before comes back after a crash. SIGUSR1
    asks for the same without waiting.
    """
    done = ask_server(storage_path, "checkpoint")
    if as_json:
        click.echo(orjson.dumps(done).decode())
        return 0
    click.echo(
        f"checkpoint of {done['queues']} queues, {done['bytes']} bytes, in generation "
        f"{done['generation']}, after {done['seconds']:.3f} s"
    )
    return 0
