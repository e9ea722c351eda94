"""Bindings whose definitions are damaged: their source exchanges refuse publishes.

Without this, a message that such a binding would have routed would be confirmed and dropped.
"""

from __future__ import annotations

EVERY_BINDING = ""
"""Stands for the names of all documents if a whole directory could not be read."""


class DamagedBindings:
    """Names of the damaged documents of one virtual host, by the source exchange of each."""

    def __init__(self) -> None:
        self._sources: dict[str, str | None] = {}
        self._by_source: dict[str | None, set[str]] = {}

    def __bool__(self) -> bool:
        """Return whether there is a damaged binding."""
        return bool(self._sources)

    def __len__(self) -> int:
        """Return the number of damaged documents; a directory counts as one."""
        return len(self._sources)

    def add(self, encoded_name: str, source: str | None) -> None:
        """Record a damaged document.

        Args:
            encoded_name: `encode_name` of its name, or `EVERY_BINDING`.
            source: Source exchange of the binding; None if the document does not say.
        """
        self.discard(encoded_name)
        self._sources[encoded_name] = source
        self._by_source.setdefault(source, set()).add(encoded_name)

    def discard(self, encoded_name: str) -> bool:
        """Forget a document that was replaced or removed; return whether it was damaged."""
        if encoded_name not in self._sources:
            return False
        source = self._sources.pop(encoded_name)
        names = self._by_source[source]
        names.discard(encoded_name)
        if not names:
            del self._by_source[source]
        return True

    def __contains__(self, encoded_name: str) -> bool:
        """Return whether the document with this name is damaged."""
        return encoded_name in self._sources

    def reasons(self) -> dict[str, str]:
        """Return the consequence of each damaged document, by encoded name."""
        return {
            name: (
                "every named exchange refuses publishes: the document does not name its exchange"
                if source is None
                else f"exchange '{source}' refuses publishes"
            )
            for name, source in self._sources.items()
        }

    def refuses(self, exchange: str) -> bool:
        """Return whether an exchange refuses publishes; the default exchange never does."""
        return exchange != "" and (exchange in self._by_source or None in self._by_source)

    def of_exchange(self, exchange: str) -> list[str]:
        """Return the encoded names of the damaged bindings whose known source is an exchange."""
        return sorted(self._by_source.get(exchange, ()))
