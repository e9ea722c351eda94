"""Options of an object store: endpoint, region, credentials, limits of time and tries.

Tasks carry the options to the workers, so they can be pickled. Every value counts as a secret
unless it is known to be none, so they never show values.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from appendlog.spark.errors import StoreError

HIDDEN: Final = "***"
_SHOWN: Final = frozenset(
    {"anonymous", "connect_timeout", "endpoint", "region", "retries", "role_arn", "timeout"}
)
# Variables that Amazon's own tools read. They are read in the driver, since workers of a cluster
# have another environment.
_S3_ENVIRONMENT: Final = (
    ("access_key", "AWS_ACCESS_KEY_ID"),
    ("secret_key", "AWS_SECRET_ACCESS_KEY"),
    ("session_token", "AWS_SESSION_TOKEN"),
    ("region", "AWS_REGION"),
    ("region", "AWS_DEFAULT_REGION"),
    ("endpoint", "AWS_ENDPOINT_URL_S3"),
    ("endpoint", "AWS_ENDPOINT_URL"),
)
_CREDENTIALS: Final = frozenset({"access_key", "secret_key", "session_token"})
S3_SCHEMES: Final = frozenset({"s3", "s3a"})


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of a store by name; hashable, and safe to print.

    Attributes:
        pairs: Pairs of name and value, ordered by name.
    """

    pairs: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Self:
        """Return the options of a mapping; the case of names does not matter."""
        return cls(tuple(sorted((name.lower(), text) for name, text in values.items())))

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Parse texts `KEY=VALUE`.

        Raises:
            StoreError: A text has no `=`. The message does not repeat it: it may be a secret.
        """
        values = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise StoreError("a store option is written KEY=VALUE, as in region=eu-central-1")
            values[name.strip()] = value
        return cls.of(values)

    def with_environment(self, scheme: str) -> Self:
        """Return these options, for S3 with those of the environment that are not given.

        All credentials come from one of the two, never a part from each.
        """
        if scheme not in S3_SCHEMES:
            return self
        values = self.as_dict()
        own_credentials = not _CREDENTIALS.isdisjoint(values) or "anonymous" in values
        for name, variable in _S3_ENVIRONMENT:
            is_taken = name in values or (own_credentials and name in _CREDENTIALS)
            if not is_taken and (text := os.environ.get(variable)):
                values[name] = text
        return self.of(values)

    def as_dict(self) -> dict[str, str]:
        """Return names and values, with the secrets."""
        return dict(self.pairs)

    def hide_in(self, text: str) -> str:
        """Return a text as one line, without values of these options that may be secret."""
        for name, value in self.pairs:
            if name not in _SHOWN and value:
                text = text.replace(value, HIDDEN)
        return " ".join(text.split())

    def __repr__(self) -> str:
        shown = (f"{name}={value if name in _SHOWN else HIDDEN}" for name, value in self.pairs)
        return f"StoreOptions({', '.join(shown)})"


NO_OPTIONS: Final = StoreOptions()
