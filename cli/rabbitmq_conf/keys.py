"""RabbitMQ's keys: which of them is which option of ours, and which have no effect here.

A `$` in a key stands for any one part (`listeners.tcp.$`), and `*` at its end for any parts.
"""

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from cli.rabbitmq_conf import values
from cli.rabbitmq_conf.without_effect import REASONS, WITHOUT_EFFECT

Translate = Callable[[str], str | bool]

OPTIONS: Final[Mapping[str, tuple[str, Translate]]] = MappingProxyType(
    {
        "default_user": ("default-user", values.text),
        "default_vhost": ("default-vhost", values.text),
        "vm_memory_high_watermark.relative": ("memory-watermark", values.share),
        "vm_memory_high_watermark.absolute": ("memory-watermark", values.memory_size),
        "disk_free_limit.absolute": ("disk-free-limit", values.memory_size),
        "consumer_timeout": ("consumer-timeout", values.milliseconds),
        "heartbeat": ("heartbeat", values.seconds),
        "channel_max": (
            "max-channels",
            values.count("channels_per_connection_max", zero_is_unlimited=True),
        ),
        "frame_max": ("max-frame-size", values.frame_size),
        "max_message_size": ("max-message-size", values.byte_size),
        # Names of RabbitMQ 4.3 for the two.
        "max_channels_per_connection": (
            "max-channels",
            values.count("channels_per_connection_max", zero_is_unlimited=True),
        ),
        "max_connections": ("max-connections", values.count("connections_max")),
        "connection_max": ("max-connections", values.count("connections_max")),
        "vhost_max": ("max-vhosts", values.count("vhosts_max")),
        "product.name": ("present-product", values.text),
        "product.version": ("present-version", values.text),
        "ssl_cert_login_from": ("ssl-cert-login-from", values.certificate_name),
        "ssl_cert_login_san_type": ("ssl-cert-login-san-type", values.text),
        "ssl_cert_login_san_index": ("ssl-cert-login-san-index", values.text),
        "auth_http.http_method": ("auth-http-method", values.text),
        "auth_http.user_path": ("auth-http-user-path", values.text),
        "auth_http.vhost_path": ("auth-http-vhost-path", values.text),
        "auth_http.resource_path": ("auth-http-resource-path", values.text),
        "auth_http.topic_path": ("auth-http-topic-path", values.text),
        "auth_http.ssl_options.cacertfile": ("auth-http-ca", values.text),
        "auth_oauth2.resource_server_id": ("auth-oauth2-resource-server-id", values.text),
        "auth_oauth2.scope_prefix": ("auth-oauth2-scope-prefix", values.text),
        "auth_oauth2.issuer": ("auth-oauth2-issuer", values.text),
        "auth_oauth2.jwks_uri": ("auth-oauth2-jwks-uri", values.text),
        "auth_oauth2.jwks_url": ("auth-oauth2-jwks-uri", values.text),
        "auth_oauth2.default_key": ("auth-oauth2-default-key", values.text),
        "auth_oauth2.verify_aud": ("auth-oauth2-verify-aud", values.truth_word),
        "auth_oauth2.additional_scopes_key": ("auth-oauth2-additional-scopes-key", values.text),
        "auth_oauth2.https.cacertfile": ("auth-oauth2-ca", values.text),
        "management.tcp.port": ("management-port", values.port),
        "management.tcp.ip": ("management-host", values.text),
        "management.ssl.port": ("management-tls-port", values.port),
        "management.ssl.ip": ("management-host", values.text),
        "management.ssl.certfile": ("management-tls-certificate", values.one_file),
        "management.ssl.keyfile": ("management-tls-key", values.one_file),
        "management.ssl.cacertfile": ("management-tls-ca", values.text),
        "management.ssl.verify": ("management-tls-verify", values.verify),
        "management.ssl.fail_if_no_peer_cert": (
            "management-tls-fail-if-no-peer-cert",
            values.truth,
        ),
        "prometheus.tcp.port": ("metrics-port", values.port),
        "prometheus.tcp.ip": ("management-host", values.text),
    }
)
"""Keys that are one option each: its name, and the translation of the value."""

TLS: Final[Mapping[str, tuple[str, Translate]]] = MappingProxyType(
    {
        "ssl_options.certfile": ("tls-certificate", values.one_file),
        "ssl_options.keyfile": ("tls-key", values.one_file),
        "ssl_options.cacertfile": ("tls-ca", values.text),
        "ssl_options.verify": ("tls-verify", values.verify),
        "ssl_options.fail_if_no_peer_cert": ("tls-fail-if-no-peer-cert", values.truth),
    }
)
"""The same for keys that count only where `listeners.ssl` is set, as in RabbitMQ."""

TOGETHER: Final = (
    "auth_backends.*",
    "auth_cache.cached_backend",
    "auth_mechanisms.$",
    "auth_oauth2.algorithms.$",
    "auth_oauth2.oauth_providers.*",
    "auth_oauth2.preferred_username_claims.$",
    "auth_oauth2.resource_servers.*",
    "auth_oauth2.scope_aliases.*",
    "auth_oauth2.scope_pattern_syntax",
    "auth_oauth2.signing_keys.$",
    "default_pass",
    "default_permissions.configure",
    "default_permissions.read",
    "default_permissions.write",
    "default_user_tags.$",
    "definitions.import_backend",
    "definitions.https.url",
    "definitions.local.path",
    "disk_free_limit.relative",
    "listeners.ssl",
    "listeners.ssl.$",
    "listeners.tcp",
    "listeners.tcp.$",
    "load_definitions",
    "log.console.formatter",
    "log.console.level",
    "log.default.level",
    "log.file.formatter",
    "log.file.level",
    "log.level",
    "loopback_users",
    "loopback_users.$",
    "management.cors.allow_origins.$",
    "management.load_definitions",
    "proxy_protocol",
    "ssl_options.cacerts.$",
    "ssl_options.cert",
    "ssl_options.ciphers.$",
    "ssl_options.crl_check",
    "ssl_options.key.$",
    "ssl_options.password",
    "ssl_options.versions.$",
)
"""Keys that `cli.rabbitmq_conf.translation` looks at together with others."""

ALTERNATIVES: Final = (
    ("vm_memory_high_watermark.relative", "vm_memory_high_watermark.absolute"),
    ("disk_free_limit.relative", "disk_free_limit.absolute"),
)
"""Keys of which the one that comes last counts."""

KNOWN: Final = (*OPTIONS, *TLS, *TOGETHER, *WITHOUT_EFFECT)


def matches(pattern: str, parts: tuple[str, ...]) -> bool:
    """Return whether a key, as its parts, is one of those that a pattern means."""
    wanted = pattern.split(".")
    if wanted[-1].endswith("*"):
        stem = wanted[-1][:-1]
        if len(parts) < len(wanted) or not parts[len(wanted) - 1].startswith(stem):
            return False
        wanted, parts = wanted[:-1], parts[: len(wanted) - 1]
    return len(wanted) == len(parts) and all(
        word in (part, "$") for word, part in zip(wanted, parts, strict=True)
    )


def why_without_effect(parts: tuple[str, ...]) -> str:
    """Return why a key that is used for nothing has no effect."""
    for reason, patterns in REASONS.items():
        if any(matches(pattern, parts) for pattern in patterns):
            return reason
    return "another key, or one that is missing, decides"


def nearest(key: str, parts: tuple[str, ...]) -> str | None:
    """Return the known key that is most like an unknown one; None if none is.

    A `$` of the known key stands for what the unknown one has in its place.
    """
    candidates = []
    for known in KNOWN:
        words = [
            part if word == "$" else word
            for word, part in zip(
                known.rstrip("*").rstrip(".").split("."), (*parts, *("1",) * 9), strict=False
            )
        ]
        if known.endswith("*"):
            words += parts[len(words) :]
        candidates.append(".".join(words))
    # A short key that is a part of the wrong one is no help: `log` for `log.consoles.level`.
    near = difflib.get_close_matches(key, candidates, n=1, cutoff=0.75)
    return near[0] if near else None
