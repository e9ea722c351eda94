"""Bindings whose definitions are damaged: the exchanges that they leave refuse publishes.

If such a binding were just missing, a message that it would have routed would be confirmed and
dropped.
"""

from __future__ import annotations

EVERY_BINDING = ""
"""Stands for the name of every document, when a whole directory was not readable."""


class DamagedBindings:
    """Names of the damaged documents of one virtual host, by the exchange that each leaves."""

    def __init__(self) -> None:
        self._sources: dict[str, str | None] = {}
        self._by_source: dict[str | None, set[str]] = {}

    def __bool__(self) -> bool:
        """Tell whether there is a damaged binding."""
        return bool(self._sources)

    def __len__(self) -> int:
        """Return how many documents are damaged; a directory counts as one."""
        return len(self._sources)

    def add(self, encoded_name: str, source: str | None) -> None:
        """Take note of a damaged document.

        Args:
            encoded_name: `encode_name` of its name, or `EVERY_BINDING`.
            source: The exchange that the binding leaves; None if the document does not say.
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
        """Tell whether the document of this name is damaged."""
        return encoded_name in self._sources

    def reasons(self) -> dict[str, str]:
        """Return by encoded name what each damaged document brings about."""
        return {
            name: (
                "every named exchange refuses publishes: the document does not say which one"
                if source is None
                else f"exchange '{source}' refuses publishes"
            )
            for name, source in self._sources.items()
        }

    def refuses(self, exchange: str) -> bool:
        """Return whether publishes to an exchange are refused; never those to the default one."""
        return exchange != "" and (exchange in self._by_source or None in self._by_source)

    def of_exchange(self, exchange: str) -> list[str]:
        """Return the encoded names of the damaged bindings that are known to leave an exchange."""
        return sorted(self._by_source.get(exchange, ()))
