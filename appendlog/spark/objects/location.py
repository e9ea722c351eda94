"""Represents places in object stores as paths: `s3://bucket/data` is the path `s3:/bucket/data`.

`Path` only folds the slashes. So code that works on paths (the layout of a data directory, error
messages) works on objects too, and only the file system distinguishes them.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from appendlog.spark.errors import StoreError

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):\Z")
_URL: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/+(.*)\Z", re.DOTALL)
LOCAL_SCHEMES: Final = frozenset({"file", "local"})


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a store.

    Attributes:
        scheme: Scheme of the URL, such as `s3`.
        key: Bucket and key, `bucket/a/b`, without slashes at the ends.
    """

    scheme: str
    key: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Return the place that a URL names.

        Raises:
            StoreError: The URL has no bucket, or it has credentials, a query, or `..`.
        """
        found = _URL.match(url)
        if found is None:
            raise StoreError(f"{url!r} is no URL of a store: write s3://bucket/folder")
        scheme, rest = found[1].lower(), found[2].strip("/")
        authority = rest.split("/", 1)[0]
        if "@" in authority:
            raise StoreError(
                f"a URL of {scheme} with an account in it: give account and credentials as store "
                "options or in the environment, where no other user sees them"
            )
        if "?" in rest or "#" in rest:
            raise StoreError(
                f"{scheme}://{authority.split('?')[0]}/...: a URL of a store has no ? and no #: "
                "give options as store options"
            )
        parts = [part for part in rest.split("/") if part not in ("", ".")]
        if not parts:
            raise StoreError(f"{scheme}:// names no bucket: write {scheme}://bucket/folder")
        if ".." in parts:
            raise StoreError(f"{scheme}://{rest}: '..' has no meaning in a store")
        return cls(scheme, "/".join(parts))

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Return the place that a path means; None for a path of this machine.

        Raises:
            StoreError: See `parse`.
        """
        if path.parts and (scheme := _SCHEME.match(path.parts[0])):
            return cls.parse(f"{scheme[1]}://{'/'.join(path.parts[1:])}")
        return None

    @property
    def path(self) -> Path:
        """Return the path that means this place."""
        return Path(f"{self.scheme}:", self.key)

    @property
    def bucket(self) -> str:
        """Return the first part of the key."""
        return self.key.split("/", 1)[0]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"


def storage_path(text: str | Path) -> Path:
    """Return the path of a data directory that a user gave as a path or a URL.

    Raises:
        StoreError: The URL names no place in a store.
    """
    if isinstance(text, Path) or "://" not in text:
        return Path(text)
    location = Location.parse(text)
    if location.scheme in LOCAL_SCHEMES:
        return Path("/", location.key)
    return location.path
