"""Consistency check of users: a directory that has lost them must not pass for a new one.

Every start of a server writes a record of the first user (`access/first_user`), and permissions are
written for users that exist only. Without this check, a directory that has lost its users would
get the user `guest` with all rights and a well-known password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.access.permissions import PERMISSIONS, TOPIC_PERMISSIONS
from amqp_server.access.user import ACCESS, FIRST_USER, USERS
from amqp_server.broker.definitions import VHOSTS
from amqp_server.recovery.start_report_file import REPORT_NAME
from metadata.double_lock import WRITER_NAME
from metadata.loading import UnreadableDocument
from metadata.log_directories import find_logs
from metadata.names import LOGS_NAME, encode_name
from metadata.paths import document_path

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import FileSystem
    from metadata.loading import LoadReport

_OF_NO_VHOST: Final = encode_name("")


def missing_access(
    storage_path: Path,
    report: LoadReport,
    filesystem: FileSystem,
    *,
    first_user: str,
    is_earlier_format: bool,
) -> list[UnreadableDocument]:
    """Return the documents of users that other files prove to have existed; blocks.

    Args:
        storage_path: The data directory.
        report: Its documents; not changed.
        filesystem: File operations.
        first_user: Name of the user that the settings give a new directory.
        is_earlier_format: Whether the directory may be from before there were users.
    """
    if is_earlier_format or not report.has_any:
        # Without any document a start is refused, unless the directory is new or all of it is
        # accepted as lost.
        return []
    root = storage_path / "metadata"
    unreadable = {(each.kind, each.encoded_name) for each in report.unreadable}

    def may_be(kind: str, name: str) -> bool:
        places = ((kind, encode_name(name)), (kind, ""), ("", ""))
        return not unreadable.isdisjoint(places)

    if _is_new(storage_path, report, filesystem, first_user):
        return []
    users = {each.name for each in report.documents if each.kind == USERS}
    found: dict[str, UnreadableDocument] = {}
    for document in report.documents:
        name = document.name
        is_row = document.kind in (PERMISSIONS, TOPIC_PERMISSIONS)
        if is_row and name not in users | found.keys() and not may_be(USERS, name):
            reason = f"missing, but user {name!r} has permissions in vhost {document.vhost!r}"
            found[name] = UnreadableDocument(
                document_path(root, USERS, "", name),
                USERS,
                _OF_NO_VHOST,
                encode_name(name),
                reason,
                is_missing=True,
            )
    has_record = any(
        each.kind == ACCESS and each.name == FIRST_USER for each in report.documents
    ) or may_be(ACCESS, FIRST_USER)
    missing = list(found.values())
    if not has_record:
        reason = "missing, but the directory is not new: a server writes it when it first starts"
        missing.append(
            UnreadableDocument(
                document_path(root, ACCESS, "", FIRST_USER),
                ACCESS,
                _OF_NO_VHOST,
                encode_name(FIRST_USER),
                reason,
                is_missing=True,
            )
        )
    return missing


def _is_new(
    storage_path: Path, report: LoadReport, filesystem: FileSystem, first_user: str
) -> bool:
    """Return whether no start has been completed on a directory.

    The first one writes virtual hosts, then the permissions of the first user, then that user, then
    the record; it may have ended anywhere. Its report comes last. A directory that programs with
    embedded logs have made has logs before its first start.
    """
    if (storage_path / REPORT_NAME).exists():
        return False
    is_embedded = (storage_path / WRITER_NAME).exists()
    logs = storage_path / LOGS_NAME
    if not is_embedded and any(not each.is_deleted for each in find_logs(logs, filesystem).logs):
        return False
    first = {(PERMISSIONS, first_user), (USERS, first_user)}
    return not report.unreadable and (
        is_embedded
        or all(each.kind == VHOSTS or (each.kind, each.name) in first for each in report.documents)
    )
