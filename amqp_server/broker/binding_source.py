"""Which exchange does a binding leave whose definition is damaged?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.definition_values import InvalidDefinitionError
from amqp_server.broker.definitions import identity_from
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TRIES_MAX: Final = 100_000
"""Exchanges that are tried in one start: a virtual host may have as many, and damaged bindings."""


class SourceSearch:
    """Finds out which exchange a damaged binding leaves.

    The name of a binding's document is a hash of all that identifies the binding. So a document in
    which the source alone is wrong still tells which one it was: the one with which the hash fits.

    Args:
        tries_max: Exchanges that are tried in all.
    """

    def __init__(self, tries_max: int = TRIES_MAX) -> None:
        self._tries_left = tries_max

    def source_of(self, encoded_name: str, body: object, exchanges: Collection[str]) -> str | None:
        """Return the exchange that a damaged binding leaves; None: the document does not say.

        Args:
            encoded_name: `encode_name` of the document's name.
            body: Of the document, as far as it can be read.
            exchanges: Names of the exchanges of its virtual host.
        """
        stored = body.get("source") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(stored, str):
            return None
        for name in (stored, *exchanges):
            if self._fits(encoded_name, body, name):
                return name
        # Something else is wrong with it than its source, if that is an exchange at all.
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
