"""Finds the source exchange of a binding whose definition is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.definition_values import InvalidDefinitionError
from amqp_server.broker.definitions import identity_from
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TRIES_MAX: Final = 100_000
"""Most exchanges that one start tries, as there may be many exchanges and damaged bindings."""


class SourceSearch:
    """Finds the source exchanges of damaged bindings.

    The name of a binding's document is a hash of all values that identify the binding. So if only
    the source in a document is wrong, the right one is the exchange for which the hash matches.

    Args:
        tries_max: Exchanges to try for all documents together.
    """

    def __init__(self, tries_max: int = TRIES_MAX) -> None:
        self._tries_left = tries_max

    def source_of(self, encoded_name: str, body: object, exchanges: Collection[str]) -> str | None:
        """Return the source exchange of a damaged binding; None if the document does not say.

        Args:
            encoded_name: `encode_name` of the document's name.
            body: Body of the document, as far as it can be read.
            exchanges: Names of the exchanges in its virtual host.
        """
        stored = body.get("source") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(stored, str):
            return None
        for name in (stored, *exchanges):
            if self._fits(encoded_name, body, name):
                return name
        # Another value is wrong, if the stored source is an exchange at all.
        return stored if stored in exchanges else None

    def _fits(self, encoded_name: str, body: Mapping[str, Any], source: str) -> bool:
        if self._tries_left <= 0:
            return False
        self._tries_left -= 1
        try:
            identity = identity_from({**body, "source": source})
        except InvalidDefinitionError:
            return False
        return encode_name(identity.document_name) == encoded_name
