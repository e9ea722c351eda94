"""The ports of the management server that nobody has asked for."""

from typing import Final

import click
from click.core import ParameterSource

_PORTS: Final = ("management_port", "metrics_port", "management_tls_port")


def default_ports(ctx: click.Context) -> frozenset[str]:
    """Return the settings of ports that have their default value.

    A port for TLS that nobody has asked for needs no certificate: it is left out without one.

    Args:
        ctx: Command, which knows the source of each value.
    """
    return frozenset(
        name for name in _PORTS if ctx.get_parameter_source(name) is ParameterSource.DEFAULT
    )
