"""The TLS settings of an address."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from amqp_server.shovel.link.errors import CannotConnectError

if TYPE_CHECKING:
    from amqp_server.shovel.link.amqp_uri import AmqpUri


def client_context(uri: AmqpUri) -> ssl.SSLContext:
    """Return the TLS settings of a connection; reads files, so a worker calls it.

    Raises:
        CannotConnectError: A file cannot be read, or is not what it should be.
    """
    try:
        context = ssl.create_default_context(cafile=uri.cacertfile or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not uri.verifies_peer:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if uri.server_name == "disable":
            context.check_hostname = False
        if uri.certfile:
            # A key with a password must not ask a terminal for it.
            context.load_cert_chain(uri.certfile, uri.keyfile or None, password=lambda: "")
    except (OSError, ValueError) as error:
        files = " ".join(filter(None, (uri.cacertfile, uri.certfile, uri.keyfile)))
        raise CannotConnectError(f"TLS files {files}: {error}") from error
    return context
