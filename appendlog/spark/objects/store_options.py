"""How a store is reached: endpoint, region, credentials, limits of time and tries.

Options travel with the tasks to where they are needed, so they can be pickled; but what they
hold is secret until it is known not to be, so they never show it.
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
# What Amazon's own tools read. Workers of a cluster have another environment than the driver,
# so it is read where the user is.
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
        pairs: Names and values, ordered by name.
    """

    pairs: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Self:
        """Return the options of a mapping. Names are told apart by letters, not by case."""
        return cls(tuple(sorted((name.lower(), text) for name, text in values.items())))

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Return the options of texts `KEY=VALUE`.

        Raises:
            StoreError: A text has no `=`; the text is not repeated, it may be a secret.
        """
        values = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise StoreError("a store option is written KEY=VALUE, as in region=eu-central-1")
            values[name.strip()] = value
        return cls.of(values)

    def with_environment(self, scheme: str) -> Self:
        """Return these options and, for S3, what the environment says where they are silent.

        Credentials come from one place, whole, never half from each.
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
        """Return names and values, secrets too."""
        return dict(self.pairs)

    def hide_in(self, text: str) -> str:
        """Return a text on one line, without any value of these options that may be secret."""
        for name, value in self.pairs:
            if name not in _SHOWN and value:
                text = text.replace(value, HIDDEN)
        return " ".join(text.split())

    def __repr__(self) -> str:
        shown = (f"{name}={value if name in _SHOWN else HIDDEN}" for name, value in self.pairs)
        return f"StoreOptions({', '.join(shown)})"


NO_OPTIONS: Final = StoreOptions()
