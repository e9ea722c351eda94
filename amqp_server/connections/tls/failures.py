"""What a failed TLS handshake means, in words for a log line."""

from __future__ import annotations

import ssl
from typing import Final

_NO_TLS: Final = "the client speaks no TLS; this port needs it"
_REASONS: Final = {
    "HTTP_REQUEST": "an HTTP client; this port speaks AMQP 0-9-1 over TLS",
    "HTTPS_PROXY_REQUEST": "an HTTP client; this port speaks AMQP 0-9-1 over TLS",
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate",
    "UNSUPPORTED_PROTOCOL": "the client has no version of TLS that this port accepts",
    "VERSION_TOO_LOW": "the client has no version of TLS that this port accepts",
    "NO_SHARED_CIPHER": "the client has no cipher suite that this port accepts",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the server's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses the server's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that the server's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses the server's certificate",
}
"""Reasons of OpenSSL that operators meet."""


def failure_text(error: BaseException) -> str:
    """Return why a handshake failed: for a log line, in words where they are known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return _REASONS.get(reason, reason.replace("_", " ").lower())
    return str(error)
