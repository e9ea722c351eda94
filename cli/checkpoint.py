"""The command `amqp-server checkpoint`: writes the settled offsets to the disk now."""

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
    """Have the running server write a checkpoint now, whatever its interval is.

    Returns when the checkpoint is on the disk: no message that was settled before is delivered
    again after a crash. The signal SIGUSR1 has the same effect, but does not wait.
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
