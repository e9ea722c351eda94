"""Output of `amqp-server --version`: the version, and the compiled kernels."""

import platform

import click

import amqp_server


def describe_version() -> str:
    """Return the version, the Python and the state of each kernel in one line.

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
    states = ", ".join(
        f"{kernel}: {'compiled' if compiled else 'interpreted'}"
        for kernel, compiled in kernels.items()
    )
    return f"amqp-server {amqp_server.__version__} (Python {platform.python_version()}; {states})"
