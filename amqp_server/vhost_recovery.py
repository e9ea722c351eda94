"""Start-up: which virtual hosts there are, and what belongs to none of them any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.definitions import DEFAULT_VHOST, VHOSTS, is_deleted_vhost
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.errors import StartupError
from metadata.errors import MetadataError
from metadata.loading import UnreadableDocument
from metadata.names import encode_name

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from metadata.loading import LoadReport

logger = logging.getLogger(__name__)

_OF_NO_VHOST = encode_name("")


async def recover_vhosts(broker: Broker, report: LoadReport) -> None:
    """Bring back the virtual hosts, and remove what a deleted one left behind.

    A data directory begins with `/`: its document is written when nothing says otherwise.

    Args:
        broker: Gets the virtual hosts, with the predeclared exchanges only.
        report: The metadata documents; those of no virtual host are taken out.

    Raises:
        StartupError: The disk refused.
    """
    _note_missing_vhosts(broker, report)
    documents = {
        document.name: document for document in report.documents if document.kind == VHOSTS
    }
    broker.vhosts.clear()
    for name, document in documents.items():
        if not is_deleted_vhost(document):
            broker.vhosts[name] = VirtualHost(name)
    try:
        if DEFAULT_VHOST not in documents:
            broker.vhosts[DEFAULT_VHOST] = VirtualHost(DEFAULT_VHOST)
            if not _unreadable_vhosts(report) & {encode_name(DEFAULT_VHOST), ""}:
                await broker.definitions.save_vhost(DEFAULT_VHOST)
        _bring_back_unreadable(broker, report)
        await _remove_orphans(broker, report)
    except MetadataError as error:
        raise StartupError(f"cannot write the data directory: {error}") from error


def _note_missing_vhosts(broker: Broker, report: LoadReport) -> None:
    """Take note when no virtual host has a document, but others of theirs are there.

    The first start writes the one of `/`, and it stays: all of them were lost, and what is in
    them must not go as the rest of deleted ones.
    """
    kinds = {document.kind for document in report.documents}
    kinds |= {each.kind for each in report.unreadable}
    vhosts = {document.vhost for document in report.documents}
    if VHOSTS not in kinds and vhosts - {"", DEFAULT_VHOST}:
        path = broker.config.storage_path / "metadata" / VHOSTS
        report.unreadable.append(UnreadableDocument(path, VHOSTS, "", "", "missing"))


def _bring_back_unreadable(broker: Broker, report: LoadReport) -> None:
    """Bring back virtual hosts whose own documents cannot be read but whose name others tell."""
    unreadable = _unreadable_vhosts(report)
    for name in {document.vhost for document in report.documents} - broker.vhosts.keys():
        if encode_name(name) in unreadable or "" in unreadable:
            broker.vhosts[name] = VirtualHost(name)


async def _remove_orphans(broker: Broker, report: LoadReport) -> None:
    """Remove what belongs to a virtual host that is not there: a crash interrupted its deletion."""
    kept = {encode_name(name) for name in broker.vhosts} | {_OF_NO_VHOST, ""}
    kept |= _unreadable_vhosts(report)
    if "" in _unreadable_vhosts(report):
        return
    orphans = {encode_name(document.vhost) for document in report.documents} - kept
    orphans |= {each.encoded_vhost for each in report.unreadable} - kept
    for encoded_vhost in sorted(orphans):
        logger.warning("rest of a deleted vhost removed vhost=%s", encoded_vhost)
        await broker.definitions.clear_vhost(encoded_vhost)
    report.documents = [each for each in report.documents if encode_name(each.vhost) not in orphans]
    report.unreadable = [each for each in report.unreadable if each.encoded_vhost not in orphans]


def _unreadable_vhosts(report: LoadReport) -> set[str]:
    """Return the encoded names of virtual hosts with unreadable documents; empty: any may be."""
    return {each.encoded_name for each in report.unreadable if each.kind == VHOSTS}
