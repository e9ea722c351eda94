"""Passwords in a definitions file become hashes before the server sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amqp_server.access.passwords import PasswordHash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.definitions_file.entry import Entry


def hash_passwords(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries, with a hash instead of each password; 50 ms each: not in an event loop.

    Raises:
        DefinitionsError: A password is no text, or a user has a hash as well.
    """
    for entry in entries:
        if entry.section != "users" or "password" not in entry.fields:
            yield entry
            continue
        password = entry.text("password")
        if entry.fields.get("password_hash"):
            raise entry.error("has both 'password' and 'password_hash'")
        made = PasswordHash.of(password.encode()) if password else PasswordHash.quick(b"")
        fields = {key: value for key, value in entry.fields.items() if key != "password"}
        fields["password_hash"] = made.text if password else ""
        fields["hashing_algorithm"] = made.algorithm
        yield replace(entry, fields=fields)
