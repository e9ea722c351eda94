"""Contexts of new TLS handshakes: one SSLContext for each certificate, chosen by host name."""

from __future__ import annotations

import logging
import ssl
import time
from typing import TYPE_CHECKING, Any, Final

from amqp_server.base.errors import StartupError
from amqp_server.connections.tls.certificate_files import (
    CertificateFiles,
    KeyPair,
    describe_certificate,
    read_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from amqp_server.connections.tls.settings import TlsSettings

logger = logging.getLogger("amqp_server.tls.contexts")

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class _PasswordNeededError(Exception):
    """A private key is encrypted, and no password is configured."""


def load_context(settings: TlsSettings) -> ssl.SSLContext:
    """Read all files and return the context of new handshakes. Blocks: it reads files.

    The context switches to that of another certificate for a client that names its host. Logs a
    warning about a certificate that is not valid now.

    Raises:
        StartupError: A file cannot be used; one line says which and why.
    """
    files = CertificateFiles.of(settings)
    by_name: dict[str, ssl.SSLContext] = {}
    contexts = []
    for pair in files.pairs:
        context = _context_of(settings, files, pair)
        contexts.append(context)
        details = describe_certificate(pair.certificate)
        _warn_of_validity(pair.certificate, details)
        for kind, name in details.get("subjectAltName", ()):
            if kind == "DNS":
                by_name.setdefault(name.lower(), context)
    first: ssl.SSLContext = contexts[0]
    if len(contexts) > 1:
        first.sni_callback = _SwitchByName(by_name)
    return first


class _SwitchByName:
    """Chooses the context of a handshake by the host that the client names (SNI).

    Args:
        by_name: Contexts by the host names in their certificates, in lower case; `*.example.org`
            stands for one label before the first dot.
    """

    def __init__(self, by_name: Mapping[str, ssl.SSLContext]) -> None:
        self._by_name = by_name

    def __call__(
        self, connection: ssl.SSLObject, name: str | None, _first: ssl.SSLContext
    ) -> int | None:
        """Set the context of a handshake; a name that no certificate has keeps the first."""
        if name is not None:
            host = name.lower()
            _, _, domain = host.partition(".")
            found = self._by_name.get(host) or self._by_name.get(f"*.{domain}")
            if found is not None:
                connection.context = found
        return None


def _context_of(settings: TlsSettings, files: CertificateFiles, pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[word] for word in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # A resumed session would skip the check of the client's certificate, and a client could make
    # the server renegotiate, which costs it much more than the client.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    if settings.ciphers:
        try:
            context.set_ciphers(settings.ciphers)
        except ssl.SSLError as error:
            raise StartupError(
                f"tls-ciphers: {settings.ciphers!r} selects no cipher suite"
            ) from error
    if settings.protocols:
        context.set_alpn_protocols(settings.protocols)
    _load_pair(context, files, pair)
    if files.authorities is not None:
        _load_authorities(context, files.authorities)
        is_required = settings.requires_certificate
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def _load_pair(context: ssl.SSLContext, files: CertificateFiles, pair: KeyPair) -> None:
    # OpenSSL's errors do not name the file.
    read_file(pair.certificate, "TLS certificate")
    read_file(pair.key, "TLS key")
    describe_certificate(pair.certificate)
    secret = None
    if files.password is not None:
        first_line = read_file(files.password, "password of the TLS key").partition("\n")[0]
        secret = first_line.removesuffix("\r")

    def password() -> str:
        if secret is None:
            raise _PasswordNeededError
        return secret

    try:
        # Without a function, OpenSSL would ask at the terminal and wait for ever.
        context.load_cert_chain(pair.certificate, pair.key, password)
    except _PasswordNeededError:
        raise StartupError(
            f"the TLS key {pair.key} is encrypted: name a file with its password "
            "by tls-key-password-file"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StartupError(
                f"the TLS key {pair.key} does not belong to the certificate {pair.certificate}"
            ) from error
        if files.password is not None:
            raise StartupError(
                f"cannot use the TLS key {pair.key}: it is not in PEM format, or the password in "
                f"{files.password} is wrong"
            ) from error
        raise StartupError(
            f"cannot use the TLS certificate {pair.certificate} with the key {pair.key}: "
            f"{error.reason or 'a private key in PEM format is missing'}"
        ) from error
    except (OSError, ValueError) as error:
        # The password is too long, or a file has gone since it was read.
        raise StartupError(f"cannot use the TLS key {pair.key}: {error}") from error


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    read_file(path, "TLS authorities")
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise StartupError(f"the TLS authorities {path} are not in PEM format") from error


def _warn_of_validity(path: Path, details: Mapping[str, Any]) -> None:
    now = time.time()
    if now > ssl.cert_time_to_seconds(details["notAfter"]):
        logger.warning(
            "TLS certificate has expired file=%s not_after=%r", path, details["notAfter"]
        )
    elif now < ssl.cert_time_to_seconds(details["notBefore"]):
        logger.warning(
            "TLS certificate is not valid yet file=%s not_before=%r", path, details["notBefore"]
        )
