"""Checks the files that settings name, as a start would, without a start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.access.backends.loading import load_backends
from amqp_server.base.errors import StartupError
from amqp_server.children.management_sockets import check_certificates
from amqp_server.connections.tls.configured import amqp_tls
from amqp_server.connections.tls.contexts import load_context
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.file_content import read_definitions

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig


def check_files(config: ServerConfig) -> None:
    """Read the certificates, keys and authorities, the files of back ends, and the definitions.

    Raises:
        StartupError: A file is missing, cannot be read, or cannot be used.
    """
    if config.tls_certificate:
        load_context(amqp_tls(config))
    check_certificates(config)
    load_backends(config)
    if config.load_definitions is not None:
        try:
            read_definitions(config.load_definitions)
        except DefinitionsError as error:
            raise StartupError(f"--load-definitions {config.load_definitions}: {error}") from error
