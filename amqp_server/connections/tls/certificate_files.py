"""The files that an operator names for TLS, and what a certificate says of itself."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp_server.base.errors import StartupError

if TYPE_CHECKING:
    from amqp_server.connections.tls.settings import TlsSettings

_NOT_THERE: Final = (0, 0, 0)


class KeyPair(NamedTuple):
    """A certificate with its chain, and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of one server.

    Attributes:
        pairs: Certificates with keys; clients that name no known host get the first.
        password: File whose first line decrypts the keys; None if they are not encrypted.
        authorities: Authorities of clients; None if clients are asked for no certificate.
    """

    pairs: tuple[KeyPair, ...]
    password: Path | None
    authorities: Path | None

    @classmethod
    def of(cls, settings: TlsSettings) -> CertificateFiles:
        """Return the files that settings name."""
        certificates = [Path(name) for name in settings.certificates]
        keys = [Path(name) for name in settings.keys] or certificates
        return cls(
            tuple(map(KeyPair, certificates, keys)),
            Path(settings.password_file) if settings.password_file else None,
            Path(settings.authorities) if settings.authorities else None,
        )

    def fingerprint(self) -> tuple[tuple[int, int, int], ...]:
        """Return values that differ when a file was replaced or written; asks the disk."""
        paths = [path for pair in self.pairs for path in pair]
        paths += [path for path in (self.password, self.authorities) if path is not None]
        return tuple(map(_state, paths))


def read_file(path: Path, what: str) -> str:
    """Return the text of a file.

    Raises:
        StartupError: The file cannot be read; the message names it and says `what` it is.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StartupError(f"cannot read the {what} {path}: {error.strerror}") from error


def describe_certificate(path: Path) -> dict[str, Any]:
    """Return what `ssl.SSLSocket.getpeercert` would of the first certificate of a PEM file.

    Raises:
        StartupError: The file has no certificate.
    """
    try:
        # The only decoder of the standard library that takes certificates which are not valid
        # now; `ssl` has had it since Python 2.6.
        return ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined, no-any-return]
    except (ssl.SSLError, OSError, ValueError) as error:
        raise StartupError(f"the TLS certificate {path} is not in PEM format") from error


def _state(path: Path) -> tuple[int, int, int]:
    try:
        # Not `lstat`: tools replace a symbolic link to a directory, as Kubernetes does.
        found = path.stat()
    except OSError:
        return _NOT_THERE
    return found.st_mtime_ns, found.st_size, found.st_ino
