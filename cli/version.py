"""Output of `amqp-server --version`: the version, and what is compiled."""

import platform

import click

import amqp_server
from amqp_server.compiled_loop import loop


def describe_version() -> str:
    """Return the version, the Python and the state of the loop and each kernel in one line.

    Raises:
        click.UsageError: A compiled kernel is required (`AMQP_SERVER_REQUIRE_COMPILED`) and
            missing.
    """
    # Imported here: the choice of a kernel loads it, and no other command needs that.
    try:
        from amqp_server.protocol import framing
        from appendlog.layout import columns, records
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    kernels = {
        "framing": framing.COMPILED,
        "records": records.COMPILED,
        "columns": columns.COMPILED,
    }
    states = [
        f"{kernel}: {'compiled' if compiled else 'interpreted'}"
        for kernel, compiled in kernels.items()
    ]
    parts = "; ".join([f"Python {platform.python_version()}", ", ".join([_loop_state(), *states])])
    return f"amqp-server {amqp_server.__version__} ({parts})"


def _loop_state() -> str:
    if loop.is_used:
        return "loop: compiled"
    return f"loop: interpreted because {loop.reason}" if loop.reason else "loop: interpreted"
