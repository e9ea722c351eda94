"""An authority of a test, and certificates that it signs."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "localhost"
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Options of a server that has this certificate."""
        files = ("--tls-certificate", str(self.certificate), "--tls-key", str(self.key))
        return (*files, "--tls-port", "0")

    @property
    def settings(self) -> dict[str, object]:
        """Fields of `ServerConfig` of such a server."""
        return {
            "tls_certificate": str(self.certificate),
            "tls_key": str(self.key),
            "tls_port": 0,
        }


class Authority:
    """An authority; its certificate is in the file `path`."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self.path = directory / f"{name}.pem"
        self._ca = trustme.CA(organization_name=f"tests {name}")
        self._ca.cert_pem.write_to_path(self.path)
        self._key = serialization.load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        self._certificate = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())

    def server_pair(self, *names: str, file: str = "server") -> Pair:
        """Return a certificate for host names; by default for this machine."""
        leaf = self._ca.issue_cert(*(names or (HOST, "127.0.0.1")), key_type=trustme.KeyType.ECDSA)
        pair = Pair(self.directory / f"{file}.pem", self.directory / f"{file}.key")
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(pair.key)
        return pair

    def client_pair(
        self,
        *names: tuple[x509.ObjectIdentifier, str],
        alternative: tuple[x509.GeneralName, ...] = (),
        begins: datetime.timedelta = -DAY,
        ends: datetime.timedelta = DAY,
        file: str = "client",
    ) -> Pair:
        """Return a certificate with any subject and time, signed by this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        # Names with control characters are what a test is about: nothing checks them.
        subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
        )
        if alternative:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternative), False)
        signed = builder.sign(self._key, hashes.SHA256())  # type: ignore[arg-type]
        pair = Pair(self.directory / f"{file}.pem", self.directory / f"{file}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair

    def trust(self, pair: Pair | None = None) -> ssl.SSLContext:
        """Return what a client needs that trusts this authority, and has a certificate or none."""
        context = ssl.create_default_context(cafile=str(self.path))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context


def common_name(text: str) -> tuple[x509.ObjectIdentifier, str]:
    """Return an attribute of a subject."""
    return NameOID.COMMON_NAME, text
