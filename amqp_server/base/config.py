"""The settings of an operator, each with unit, default, bounds and effect.

The command line (`cli`) only parses. A `ServerConfig` checks itself, so the same bounds apply to a
server that is embedded or started by a test. `amqp_server.base.limits` has the limits that no
option sets.
"""

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from amqp_server import __version__
from amqp_server.base.limits import GIB, KIB, MIB, Limits
from amqp_server.base.listen_addresses import hosts_of, parse_addresses
from appendlog import Compression

__all__ = [
    "AUTH_HTTP_METHODS",
    "AUTH_HTTP_PATHS",
    "AUTH_OAUTH2_ALGORITHMS",
    "BOUNDS",
    "CERT_LOGIN_FROM",
    "CERT_LOGIN_SAN_TYPES",
    "LOG_FORMATS",
    "LOG_LEVELS",
    "ON_DISK_STALL",
    "TLS_VERIFY",
    "TLS_VERSIONS",
    "Bounds",
    "ConfigError",
    "Durability",
    "Limits",
    "ServerConfig",
    "named_words",
    "words",
]

PRESENTED_CHARACTERS_MAX: Final = 100
"""Longest product name, in characters, that the server presents to clients."""
_HOST_NAME: Final = re.compile(r"\*|(\*\.)?[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*\.?")
_VERSION: Final = re.compile(r"[0-9]{1,5}\.[0-9]{1,5}\.[0-9]{1,5}([-+.][0-9A-Za-z.+-]{1,80})?")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")
ON_DISK_STALL: Final = ("alarm", "exit")
TLS_VERSIONS: Final = ("1.2", "1.3")
TLS_VERIFY: Final = ("none", "peer")
CERT_LOGIN_FROM: Final = ("distinguished_name", "common_name", "subject_alternative_name")
CERT_LOGIN_SAN_TYPES: Final = ("dns", "ip", "email", "uri")

AUTH_HTTP_METHODS: Final = ("get", "post")
AUTH_HTTP_PATHS: Final = (
    "auth_http_user_path",
    "auth_http_vhost_path",
    "auth_http_resource_path",
    "auth_http_topic_path",
)
AUTH_OAUTH2_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Algorithms of tokens, all with a private key. Never `none`, never those with a shared secret."""
_URL: Final = re.compile(r"https?://[^\s/?#]+[^\s#]*", re.IGNORECASE)


class Durability(StrEnum):
    """Condition under which a persistent message is confirmed."""

    FSYNC = "fsync"
    """The message is on the disk: it survives a power cut."""
    WRITE = "write"
    """The kernel has it: it survives the end of the process, but not of the machine."""
    NONE = "none"
    """The broker has accepted it: it survives nothing until it is written, moments later."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Allowed values of a number: `least` to `most`, both included.

    Attributes:
        least: Smallest value.
        most: Largest value.
        multiple_of: Number of which the value must be a multiple; 1 for any.
        or_zero: Whether zero is allowed too, with a meaning of its own.
    """

    least: float
    most: float
    multiple_of: int = 1
    or_zero: bool = False

    def __contains__(self, value: float) -> bool:
        if self.or_zero and value == 0:
            return True
        return (
            math.isfinite(value)
            and self.least <= value <= self.most
            and (self.multiple_of == 1 or value % self.multiple_of == 0)
        )


class ConfigError(ValueError):
    """A setting has an invalid value.

    Attributes:
        setting: Name of the field of `ServerConfig`.
        value: The invalid value.
        bounds: The allowed values; None if the error is not about bounds.
    """

    def __init__(
        self, setting: str, value: object, reason: str, bounds: Bounds | None = None
    ) -> None:
        super().__init__(f"{setting} is {value!r}: {reason}")
        self.setting = setting
        self.value = value
        self.reason = reason
        self.bounds = bounds


BOUNDS: Final[Mapping[str, Bounds]] = MappingProxyType(
    {
        "port": Bounds(0, 65_535),
        "tls_port": Bounds(0, 65_535),
        "management_port": Bounds(-1, 65_535),
        "metrics_port": Bounds(-1, 65_535),
        "management_tls_port": Bounds(-1, 65_535),
        "ssl_cert_login_san_index": Bounds(0, 1000),
        "offset_checkpoint_interval_seconds": Bounds(0.01, 3600, or_zero=True),
        "ring_size": Bounds(1024, 4 * MIB, multiple_of=1024),
        "ring_bytes": Bounds(64 * KIB, 64 * GIB),
        "ring_bytes_total": Bounds(1 * MIB, 1024 * GIB),
        "flush_bytes": Bounds(4 * KIB, 16 * MIB),
        "flush_interval_seconds": Bounds(0.001, 10, or_zero=True),
        "compression_bytes_min": Bounds(0, 16 * MIB),
        "compact_below": Bounds(0.01, 0.9, or_zero=True),
        "retain_for_seconds": Bounds(1, 36_500 * 86_400, or_zero=True),
        "retain_bytes": Bounds(1 * KIB, 1024 * 1024 * GIB, or_zero=True),
        "retain_bytes_total": Bounds(1 * KIB, 1024 * 1024 * GIB, or_zero=True),
        "retain_segments_min": Bounds(1, 1_000_000),
        "force_remove_after_seconds": Bounds(1, 36_500 * 86_400, or_zero=True),
        "segment_bytes": Bounds(64 * KIB, 2 * GIB),
        "segment_age_seconds": Bounds(1, 36_500 * 86_400, or_zero=True),
        "memory_watermark": Bounds(0, 1024 * GIB),
        "disk_free_limit_bytes": Bounds(1 * MIB, 1024 * 1024 * GIB, or_zero=True),
        "disk_stall_limit_seconds": Bounds(1, 3600),
        "consumer_timeout_seconds": Bounds(0.001, 3_650 * 86_400, or_zero=True),
        "max_message_bytes": Bounds(1 * KIB, 512 * MIB),
        "connections_max": Bounds(1, 1_000_000),
        "channels_per_connection_max": Bounds(1, 65_535),
        "frame_bytes_max": Bounds(8 * KIB, 1 * MIB),
        "heartbeat_seconds": Bounds(1, 65_535, or_zero=True),
        "vhosts_max": Bounds(1, 100_000),
        "auth_timeout_seconds": Bounds(0.1, 9),
        "audit_files": Bounds(2, 1000, or_zero=True),
        "audit_file_bytes": Bounds(64 * KIB, 1 * GIB),
    }
)
"""The bounds of every numeric setting, by field name."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of one server; the defaults are those of the command line.

    Attributes:
        host: Addresses or host names to listen on, separated by commas, each with `:PORT` if it is
            not `port`; `0.0.0.0` or `::` for every interface.
        port: TCP port; 0 lets the system choose a free one.
        storage_path: Data directory, created if it is missing; only one server may run on it.
        offset_checkpoint_interval_seconds: Seconds between two writes of what consumers have
            settled. After a crash, messages settled since the last checkpoint return, marked
            redelivered. 0: only on request and at a clean stop.
        ring_size: Slots of each queue's window in memory: a multiple of 1024.
        ring_bytes: Bytes of messages in one queue's window; older ones are read from its log.
        ring_bytes_total: Bytes of messages in the windows of all queues together.
        durability: What must have happened before a persistent message is confirmed; a queue may
            have its own.
        flush_bytes: Bytes of one queue that are written as one chunk at most; a larger message gets
            a chunk of its own.
        flush_interval_seconds: Longest time that a message waits to share its write with others. 0
            writes at the next turn of the event loop.
        compression: Compression of what is written to the log; a queue may have its own.
        compression_bytes_min: Bytes of messages in one write below which nothing is compressed.
        retain_for_seconds: Longest time that settled messages are kept for replay and export. 0: no
            such bound. Without this and `retain_bytes`, a segment is removed as soon as all of it
            is settled; with both, when either bound is exceeded.
        retain_bytes: Bytes of settled segments that a queue keeps at most. 0: no such bound.
        retain_bytes_total: Bytes of settled segments that all queues together keep at most. The
            oldest are removed first, whatever the other bounds would keep. 0: no such bound.
        retain_segments_min: Newest segments of a queue that stay whatever these bounds say,
            including the one being written.
        protect_unconsumed: Whether these bounds spare segments with unsettled messages.
        force_remove_after_seconds: Age at which a segment is removed with its unsettled messages,
            which are dropped or dead-lettered. 0: never.
        compact_below: Share of live bytes below which a segment is rewritten to free the rest. 0:
            wait until all of it is settled.
        consumer_timeout_seconds: Seconds that a consumer may take to answer a delivery before its
            channel is closed; 0: no limit. Queues and consumers may have their own.
        max_message_bytes: Largest message body that is accepted.
        connections_max: Open client connections; one more is closed before its handshake. A small
            limit of open files lowers it (`amqp_server.upkeep.open_file_limit`).
        channels_per_connection_max: Offered as channel-max in `connection.tune`.
        frame_bytes_max: Offered as frame-max in `connection.tune`: bytes of a whole frame with its
            header and end octet. A larger frame is a frame error (501). The server's read buffer
            has room for three.
        heartbeat_seconds: Interval offered in `connection.tune`, in whole seconds; the client may
            lower it or refuse (0). 0 offers none.
        vhosts_max: Virtual hosts. One more is refused.
        memory_watermark: Memory of this process above which publishers are blocked: up to 1 a share
            of the memory that it may use, above 1 bytes; 0 blocks them always.
        disk_free_limit_bytes: Free bytes on the disk of the data directory below which publishers
            are blocked; 0: never. The default is four segments: what a fast disk writes between two
            checks, and the checkpoint that frees space.
        disk_stall_limit_seconds: Seconds after which a write or sync that has not returned is a
            disk that hangs. A busy disk may take a second for one.
        on_disk_stall: What then happens: `alarm` blocks publishers, fails checks of health and
            feeds no watchdog; `exit` ends the process at once.
        default_user: User with all rights that a new data directory gets.
        default_password: Password of that user; not shown.
        default_vhost: Virtual host that a new data directory gets beside `/`.
        load_definitions: Definitions file, or directory of such files, that each start imports. A
            new data directory then has only what it contains.
        guest_from_anywhere: Whether `guest` may log in from another machine, as containers need.
        no_shovels: Whether shovels stay as they are and none runs. They would move the messages of
            other brokers when a server starts on a copy of the data.
        present_product: `product` in the server's properties. Some clients switch on features by
            it.
        present_version: `version` in the server's properties; three numbers with dots.
        audit_files: Files of the audit log that are kept: so many of changes, and so many of logins
            and connections. 0: no audit log.
        audit_file_bytes: Size at which a file of the audit log is complete.
        tls_certificate: PEM files of the server's certificates, each with its chain, separated by
            commas; empty: the server does not listen for TLS. A client that names a host gets the
            certificate with that name, others get the first.
        tls_key: PEM files of their private keys, in the same order; empty: the keys are in the
            files of the certificates.
        tls_key_password_file: File whose first line decrypts the keys; empty: they are not
            encrypted.
        tls_host: The same for TLS; empty: the hosts of `host`.
        tls_port: TCP port for TLS; 0 lets the system choose a free one.
        tls_only: Whether the server listens for TLS only.
        tls_ca: PEM file of the authorities whose client certificates are accepted.
        tls_verify: `peer` asks clients for a certificate and checks it, `none` does not ask.
        tls_fail_if_no_peer_cert: Whether a client must have a certificate.
        tls_versions: Versions of TLS that are accepted, separated by commas: 1.2, 1.3.
        tls_ciphers: Cipher suites of TLS 1.2 in OpenSSL's notation; empty: a safe selection.
        ssl_cert_login_from: Where in a client's certificate the name of its user stands, if it logs
            in by the certificate: distinguished_name, common_name or subject_alternative_name.
        ssl_cert_login_san_type: Which of its alternative names: dns, ip, email or uri.
        ssl_cert_login_san_index: Which of those, from 0.
        proxy_protocol_trusted: Networks (CIDR), separated by commas, whose proxies may say by the
            PROXY protocol for which client they connect; empty: none.
        management_port: TCP port of the HTTP API and the page; 0: none, -1: a free one. Without it
            there is no management server, unless metrics have a port.
        management_host: Hosts to listen on for the API, the page and metrics, separated by commas;
            empty: those of `host`.
        metrics_port: TCP port of the metrics for Prometheus; 0: none, -1: a free one.
        management_tls_port: TCP port of the API and the page with TLS, if there is a certificate.
            0: none, -1: a free one.
        management_tls_certificate: PEM files of the certificates of that port, as
            `tls_certificate`; empty: those.
        management_tls_key: PEM files of their private keys, as `tls_key`.
        management_tls_ca: PEM file of the authorities whose client certificates that port accepts.
        management_tls_verify: `peer` asks its clients for a certificate and checks it.
        management_tls_fail_if_no_peer_cert: Whether its clients must have a certificate.
        management_cors_origin: Origins whose pages may use the API, separated by commas; `*` for
            all.
        management_hosts: Names of this server by HTTP, separated by commas, `*.example` for all
            below one; requests to other names are refused. Empty: all names are good where a login
            is needed.
        optional_ports: Names of the settings above whose port is only a default: it asks for no
            certificate.
        auth_backends: Who lets users in, in the order in which they are tried, separated by commas:
            internal (the server's own users), http, oauth2, or the name of an entry point of the
            group `amqp_server.auth_backends`.
        auth_timeout_seconds: Time until a back end must have answered; it denies otherwise.
        auth_http_method: Method of the requests of the back end http: get or post.
        auth_http_user_path: Address that is asked for logins.
        auth_http_vhost_path: Address that is asked for virtual hosts.
        auth_http_resource_path: Address that is asked for queues and exchanges.
        auth_http_topic_path: Address that is asked for routing keys of topic exchanges.
        auth_http_ca: PEM file of the authorities that sign that server's certificate; empty: those
            of the system.
        auth_oauth2_resource_server_id: Name of this server in the audience of tokens.
        auth_oauth2_scope_prefix: What scopes for this server begin with; empty: that name and a
            dot.
        auth_oauth2_issuer: Issuer of the tokens; empty: not checked. Without `auth_oauth2_jwks_uri`
            and keys, it tells where its keys are.
        auth_oauth2_jwks_uri: Address of the keys that sign tokens.
        auth_oauth2_signing_keys: PEM files of such keys, `NAME=FILE` separated by commas.
        auth_oauth2_default_key: Name of the key of tokens that name none.
        auth_oauth2_verify_aud: Whether tokens must be for this server.
        auth_oauth2_preferred_username_claims: Claims with the name of the user, separated by
            commas; `sub` and `client_id` come last.
        auth_oauth2_additional_scopes_key: Paths of claims with more scopes, separated by spaces.
        auth_oauth2_scope_aliases: Scopes that others stand for, `ALIAS=SCOPE SCOPE` separated by
            commas.
        auth_oauth2_algorithms: Algorithms that are accepted, separated by commas; empty: all with
            a private key.
        auth_oauth2_ca: As `auth_http_ca`, for `auth_oauth2_jwks_uri` and the issuer.
        log_level: Least severe level that is logged: debug, info, warning or error.
        log_format: Format of a log line: text (`key=value`) or json (one object a line).
        limits: Limits that no option sets.

    Raises:
        ConfigError: A value is outside its bounds, or contradicts another.
    """

    host: str = "127.0.0.1"
    port: int = 5672
    storage_path: Path = field(default_factory=lambda: Path("data"))
    offset_checkpoint_interval_seconds: float = 5.0
    ring_size: int = 65_536
    ring_bytes: int = 16 * MIB
    ring_bytes_total: int = 256 * MIB
    durability: Durability = Durability.FSYNC
    flush_bytes: int = 256 * KIB
    flush_interval_seconds: float = 0.01
    compression: Compression = Compression.NONE
    compression_bytes_min: int = 1 * KIB
    retain_for_seconds: float = 0.0
    retain_bytes: int = 0
    retain_bytes_total: int = 0
    retain_segments_min: int = 1
    protect_unconsumed: bool = True
    force_remove_after_seconds: float = 0.0
    compact_below: float = 0.25
    segment_bytes: int = 64 * MIB
    segment_age_seconds: float = 7 * 86_400.0
    consumer_timeout_seconds: float = 0.0
    max_message_bytes: int = 128 * MIB
    connections_max: int = 10_000
    channels_per_connection_max: int = 2047
    frame_bytes_max: int = 128 * KIB
    heartbeat_seconds: float = 60.0
    vhosts_max: int = 10_000
    memory_watermark: float = 0.6
    disk_free_limit_bytes: int = 256 * MIB
    disk_stall_limit_seconds: float = 30.0
    on_disk_stall: str = "alarm"
    default_user: str = "guest"
    default_password: str = field(default="guest", repr=False)
    default_vhost: str = "/"
    load_definitions: Path | None = None
    guest_from_anywhere: bool = False
    no_shovels: bool = False
    present_product: str = "amqp-server"
    present_version: str = __version__
    audit_files: int = 8
    audit_file_bytes: int = 4 * MIB
    tls_certificate: str = ""
    tls_key: str = ""
    tls_key_password_file: str = ""
    tls_host: str = ""
    tls_port: int = 5671
    tls_only: bool = False
    tls_ca: str = ""
    tls_verify: str = "none"
    tls_fail_if_no_peer_cert: bool = False
    tls_versions: str = "1.2,1.3"
    tls_ciphers: str = ""
    ssl_cert_login_from: str = "distinguished_name"
    ssl_cert_login_san_type: str = "dns"
    ssl_cert_login_san_index: int = 0
    proxy_protocol_trusted: str = ""
    management_port: int = 0
    management_host: str = ""
    metrics_port: int = 0
    management_tls_port: int = 0
    management_tls_certificate: str = ""
    management_tls_key: str = ""
    management_tls_ca: str = ""
    management_tls_verify: str = "none"
    management_tls_fail_if_no_peer_cert: bool = False
    management_cors_origin: str = ""
    management_hosts: str = ""
    optional_ports: frozenset[str] = frozenset()
    auth_backends: str = "internal"
    auth_timeout_seconds: float = 5.0
    auth_http_method: str = "get"
    auth_http_user_path: str = ""
    auth_http_vhost_path: str = ""
    auth_http_resource_path: str = ""
    auth_http_topic_path: str = ""
    auth_http_ca: str = ""
    auth_oauth2_resource_server_id: str = ""
    auth_oauth2_scope_prefix: str = ""
    auth_oauth2_issuer: str = ""
    auth_oauth2_jwks_uri: str = ""
    auth_oauth2_signing_keys: str = ""
    auth_oauth2_default_key: str = ""
    auth_oauth2_verify_aud: bool = True
    auth_oauth2_preferred_username_claims: str = ""
    auth_oauth2_additional_scopes_key: str = ""
    auth_oauth2_scope_aliases: str = ""
    auth_oauth2_algorithms: str = ""
    auth_oauth2_ca: str = ""
    log_level: str = "info"
    log_format: str = "text"
    limits: Limits = field(default_factory=Limits)

    @property
    def plain_addresses(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports to listen on without TLS."""
        if self.tls_only:
            return ()
        return self._addresses(self.host, self.port)

    @property
    def tls_addresses(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports to listen on with TLS."""
        if not self.tls_certificate:
            return ()
        if self.tls_host:
            return self._addresses(self.tls_host, self.tls_port)
        return tuple((host, self.tls_port) for host in hosts_of(self.host))

    @property
    def management_addresses(self) -> tuple[str, ...]:
        """Hosts to listen on for the API, the page and metrics."""
        return hosts_of(self.management_host or self.host)

    @staticmethod
    def _addresses(text: str, port: int) -> tuple[tuple[str, int], ...]:
        found = parse_addresses(text)
        return tuple((each.host, port if each.port is None else each.port) for each in found)

    def _check_addresses(self) -> None:
        """Check the settings that are addresses.

        Raises:
            ConfigError: One is not, is there twice, or has a port where it must not.
        """
        for name in ("host", "tls_host", "management_host"):
            value = getattr(self, name)
            if not value:
                continue
            try:
                found = parse_addresses(value)
            except ValueError as error:
                raise ConfigError(name, value, str(error)) from error
            if name == "management_host" and any(each.port is not None for each in found):
                raise ConfigError(name, value, "with a port: that is --management-port")
        for each in words(self.management_hosts):
            if not _HOST_NAME.fullmatch(each):
                reason = "not names such as rabbit.example or *.example, without scheme and port"
                raise ConfigError("management_hosts", each, reason)
        for name, addresses in (("host", self.plain_addresses), ("tls_host", self.tls_addresses)):
            wanted = [each for each in addresses if each[1]]
            if len(set(wanted)) < len(wanted):
                raise ConfigError(name, getattr(self, name), "the same address and port twice")

    def __post_init__(self) -> None:
        for name, bounds in BOUNDS.items():
            value = getattr(self, name)
            if value not in bounds:
                raise ConfigError(name, value, "out of bounds", bounds)
        if not self.host.strip():
            raise ConfigError("host", self.host, "empty: write 0.0.0.0 to listen everywhere")
        self._check_addresses()
        if 1 < self.memory_watermark < MIB:
            raise ConfigError(
                "memory_watermark",
                self.memory_watermark,
                "neither a share of the memory, up to 1, nor as much as 1MiB",
            )
        if self.heartbeat_seconds != int(self.heartbeat_seconds):
            raise ConfigError(
                "heartbeat_seconds", self.heartbeat_seconds, "not a whole number of seconds"
            )
        if not 0 < len(self.present_product.strip()) <= PRESENTED_CHARACTERS_MAX:
            raise ConfigError(
                "present_product",
                self.present_product,
                f"not 1 to {PRESENTED_CHARACTERS_MAX} characters",
            )
        if not _VERSION.fullmatch(self.present_version):
            raise ConfigError(
                "present_version",
                self.present_version,
                "not a version of three numbers, for example 3.13.7",
            )
        for name, choices in (
            ("on_disk_stall", ON_DISK_STALL),
            ("log_level", LOG_LEVELS),
            ("log_format", LOG_FORMATS),
        ):
            value = getattr(self, name)
            if value not in choices:
                raise ConfigError(name, value, f"not one of {', '.join(choices)}")
        if self.ring_bytes > self.ring_bytes_total:
            raise ConfigError("ring_bytes", self.ring_bytes, "more than ring_bytes_total")
        self._check_tls()
        self._check_proxies()
        self._check_backends()
        if self.management_tls_key and not self.management_tls_certificate:
            raise ConfigError(
                "management_tls_key",
                self.management_tls_key,
                "useless without management_tls_certificate",
            )

    def _check_tls(self) -> None:
        if not set(words(self.tls_versions)) <= set(TLS_VERSIONS) or not words(self.tls_versions):
            raise ConfigError("tls_versions", self.tls_versions, "not 1.2, 1.3 or 1.2,1.3")
        for name, choices in (
            ("tls_verify", TLS_VERIFY),
            ("management_tls_verify", TLS_VERIFY),
            ("ssl_cert_login_from", CERT_LOGIN_FROM),
            ("ssl_cert_login_san_type", CERT_LOGIN_SAN_TYPES),
        ):
            value = getattr(self, name)
            if value not in choices:
                raise ConfigError(name, value, f"not one of {', '.join(choices)}")
        if self.tls_only and not self.tls_certificate:
            raise ConfigError("tls_only", self.tls_only, "useless without tls_certificate")
        has_certificate = bool(self.tls_certificate)
        self._check_tls_of("tls", has_certificate=has_certificate)
        if self.management_tls_certificate:
            has_certificate = True
        self._check_tls_of("management_tls", has_certificate=has_certificate)

    def _check_tls_of(self, prefix: str, *, has_certificate: bool) -> None:
        """Check the settings of one kind of listeners, whose names begin with a prefix."""

        def setting(name: str) -> str:
            return str(getattr(self, f"{prefix}_{name}"))

        files, keys = words(setting("certificate")), words(setting("key"))
        if keys and files and len(files) != len(keys):
            raise ConfigError(
                f"{prefix}_key",
                setting("key"),
                f"{len(keys)} files for {len(files)} files of {prefix}_certificate",
            )
        verify = setting("verify")
        if verify == "peer" and has_certificate and not setting("ca"):
            raise ConfigError(f"{prefix}_verify", verify, f"useless without {prefix}_ca")
        if getattr(self, f"{prefix}_fail_if_no_peer_cert") and verify != "peer":
            name = f"{prefix}_fail_if_no_peer_cert"
            raise ConfigError(name, True, f"for {prefix}_verify peer only")

    def _check_backends(self) -> None:
        names = words(self.auth_backends)
        if not names or len(set(names)) != len(names):
            raise ConfigError("auth_backends", self.auth_backends, "not a list of different names")
        if self.auth_http_method not in AUTH_HTTP_METHODS:
            reason = f"not one of {', '.join(AUTH_HTTP_METHODS)}"
            raise ConfigError("auth_http_method", self.auth_http_method, reason)
        if "http" in names:
            self._check_urls(AUTH_HTTP_PATHS, "the back end http needs it")
        if "oauth2" in names:
            self._check_oauth2()

    def _check_urls(self, settings: tuple[str, ...], reason_if_missing: str = "") -> None:
        for name in settings:
            value = getattr(self, name)
            if not value and not reason_if_missing:
                continue
            if not value:
                raise ConfigError(name, value, f"missing: {reason_if_missing}")
            if not _URL.fullmatch(value):
                raise ConfigError(name, value, "not an address such as https://host:port/path")

    def _check_oauth2(self) -> None:
        name = "auth_oauth2_resource_server_id"
        if not self.auth_oauth2_resource_server_id:
            raise ConfigError(name, "", "missing: the back end oauth2 needs it")
        self._check_urls(("auth_oauth2_issuer", "auth_oauth2_jwks_uri"))
        for name in ("auth_oauth2_signing_keys", "auth_oauth2_scope_aliases"):
            value = getattr(self, name)
            if len(named_words(value)) != len(words(value)):
                raise ConfigError(name, value, "not a list of NAME=VALUE, separated by commas")
        for each in words(self.auth_oauth2_algorithms):
            if each not in AUTH_OAUTH2_ALGORITHMS:
                known = ", ".join(AUTH_OAUTH2_ALGORITHMS)
                raise ConfigError("auth_oauth2_algorithms", each, f"not one of {known}")
        if not (
            self.auth_oauth2_jwks_uri or self.auth_oauth2_signing_keys or self.auth_oauth2_issuer
        ):
            reason = "missing: tokens need signing keys, auth_oauth2_jwks_uri or auth_oauth2_issuer"
            raise ConfigError("auth_oauth2_jwks_uri", "", reason)
        keys = named_words(self.auth_oauth2_signing_keys)
        default = self.auth_oauth2_default_key
        if default and keys and not self.auth_oauth2_jwks_uri and default not in keys:
            raise ConfigError("auth_oauth2_default_key", default, "not one of the signing keys")

    def _check_proxies(self) -> None:
        for text in words(self.proxy_protocol_trusted):
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ConfigError(
                    "proxy_protocol_trusted",
                    text,
                    "not a network such as 10.0.0.0/8 or fd00::/8, nor an address",
                ) from None


def named_words(text: str) -> dict[str, str]:
    """Return the entries of a setting that lists `NAME=VALUE`, separated by commas, by name.

    An entry that has another form, or a name that is there twice, is left out.
    """
    parts = (word.partition("=") for word in words(text))
    return {name.strip(): value.strip() for name, _, value in parts if name.strip() and value}


def words(text: str) -> list[str]:
    """Return the entries of a setting that lists several, separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
