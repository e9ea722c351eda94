"""Start-up: recovers the virtual hosts, and their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.base.errors import StartupError
from amqp_server.broker.definitions import DEFAULT_VHOST, VHOSTS, is_deletion_note
from amqp_server.broker.vhost_changes import NAME_BYTES_MAX
from amqp_server.broker.vhost_limits import (
    DOCUMENT_NAME,
    VHOST_LIMITS,
    InvalidLimitError,
    VhostLimits,
)
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.recovery.malformed_definitions import malformed_definition
from metadata.errors import MetadataError
from metadata.names import encode_name

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.recovery.start_report import MalformedDefinition
    from metadata.loading import LoadReport


async def recover_vhosts(broker: Broker, report: LoadReport) -> None:
    """Create the recovered virtual hosts, with the predeclared exchanges only.

    A new data directory gets the virtual host `/`, and `default_vhost` of the settings, unless an
    unreadable document may be its own, or the settings name definitions to load.

    Args:
        broker: Broker that gets the virtual hosts; its present ones are removed.
        report: The metadata documents, without those of deleted virtual hosts.

    Raises:
        StartupError: The disk refused to write the document of `/`.
    """
    documents = {
        document.name: document for document in report.documents if document.kind == VHOSTS
    }
    broker.vhosts.clear()
    for name, document in documents.items():
        if not is_deletion_note(document):
            broker.vhosts[name] = VirtualHost(name)
    if broker.config.load_definitions is not None and not report.has_any:
        # The definitions say which virtual hosts a new directory has.
        return
    unreadable = {
        each.encoded_name
        for each in report.unreadable
        if each.kind == VHOSTS and not each.is_missing
    }
    if DEFAULT_VHOST not in documents:
        broker.vhosts[DEFAULT_VHOST] = VirtualHost(DEFAULT_VHOST)
        if not unreadable & {encode_name(DEFAULT_VHOST), ""}:
            try:
                # Before `/`, whose document says that the directory is not new any more.
                if not documents:
                    await _create_default(broker)
                await broker.definitions.save_vhost(DEFAULT_VHOST)
            except MetadataError as error:
                raise StartupError(f"cannot write the data directory: {error}") from error
    # Also the virtual hosts whose own documents cannot be read: other documents name them.
    for name in {document.vhost for document in report.documents} - broker.vhosts.keys() - {""}:
        broker.vhosts[name] = VirtualHost(name)


def recover_vhost_limits(
    broker: Broker, report: LoadReport, malformed: list[MalformedDefinition]
) -> None:
    """Give the recovered virtual hosts their limits; invalid documents are added to `malformed`."""
    for document in report.documents:
        vhost = broker.vhosts.get(document.vhost)
        if document.kind != VHOST_LIMITS or document.name != DOCUMENT_NAME or vhost is None:
            continue
        try:
            vhost.limits = VhostLimits.of(document.body)
        except InvalidLimitError as error:
            malformed.append(malformed_definition(broker.config.storage_path, document, error))


async def _create_default(broker: Broker) -> None:
    """Create the virtual host that the operator wants in a new data directory.

    Raises:
        StartupError: It cannot have such a name.
        MetadataError: The disk refused.
    """
    name = broker.config.default_vhost
    if name == DEFAULT_VHOST:
        return
    if not 0 < len(name.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX:
        raise StartupError(f"--default-vhost: a name must have 1 to {NAME_BYTES_MAX} bytes")
    await broker.definitions.save_vhost(name)
    broker.vhosts[name] = VirtualHost(name)
