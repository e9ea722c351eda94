"""RabbitMQ's keys: which of them is which option of ours, and which have no effect here.

A `$` in a key stands for any one part (`listeners.tcp.$`), and `*` at its end for any parts.
"""

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from cli.rabbitmq_conf import values

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
        "connection_max": ("max-connections", values.count("connections_max")),
        "vhost_max": ("max-vhosts", values.count("vhosts_max")),
        "product.name": ("present-product", values.text),
        "product.version": ("present-version", values.text),
        "ssl_cert_login_from": ("ssl-cert-login-from", values.certificate_name),
        "ssl_cert_login_san_type": ("ssl-cert-login-san-type", values.text),
        "ssl_cert_login_san_index": ("ssl-cert-login-san-index", values.text),
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
    "auth_mechanisms.$",
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

WITHOUT_EFFECT: Final = (
    "amqp1_0.*",
    "amqp_client.*",
    "anonymous_login_pass",
    "anonymous_login_user",
    "auth_cache.*",
    "auth_http.*",
    "auth_ldap.*",
    "auth_oauth2.*",
    "aws.*",
    "background_gc_enabled",
    "background_gc_target_interval",
    "channel_max_per_node",
    "channel_operation_timeout",
    "channel_tick_interval",
    "classic_queue.*",
    "cluster_exchange_limit",
    "cluster_formation.*",
    "cluster_keepalive_interval",
    "cluster_name",
    "cluster_partition_handling",
    "cluster_partition_handling.*",
    "cluster_queue_limit",
    "cluster_tags.*",
    "collect_statistics",
    "collect_statistics_interval",
    "consumer_max_per_channel",
    "credential_validator.*",
    "default_limits.*",
    "default_policies.*",
    "default_queue_type",
    "default_users.*",
    "default_worker_pool_size",
    "definitions.hashing.*",
    "definitions.skip_if_unchanged",
    "definitions.tls.*",
    "delegate_count",
    "deprecated_features.*",
    "disk_monitor.*",
    "distribution.*",
    "erlang.*",
    "event_exchange.*",
    "exchange_federation.*",
    "federation.*",
    "handshake_timeout",
    "hipe_compile",
    "initial_frame_max",
    "link_max_per_session",
    "log.channel.*",
    "log.connection.*",
    "log.console",
    "log.console.*",
    "log.default.*",
    "log.dir",
    "log.exchange",
    "log.exchange.*",
    "log.federation.*",
    "log.feature_flags.*",
    "log.file",
    "log.file.*",
    "log.journald",
    "log.journald.*",
    "log.ldap.*",
    "log.mirroring.*",
    "log.prelaunch.*",
    "log.queue.*",
    "log.ra.*",
    "log.shovel.*",
    "log.summarize_process_state",
    "log.syslog",
    "log.syslog.*",
    "log.upgrade.*",
    "management.cors.allow_origins",
    "management.cors.max_age",
    "management.csp.policy",
    "management.db_cache_multiplier",
    "management.delegate_count",
    "management.disable_basic_auth",
    "management.disable_stats",
    "management.enable_queue_totals",
    "management.enable_uaa",
    "management.headers.*",
    "management.hsts.policy",
    "management.http.*",
    "management.http_log_dir",
    "management.listener.*",
    "management.login_session_timeout",
    "management.oauth_*",
    "management.path_prefix",
    "management.rates_mode",
    "management.require_auth_for_api_desc_page",
    "management.restrictions.*",
    "management.sample_retention_policies.*",
    "management.ssl.*",
    "management.tcp.*",
    "management.uaa_client_id",
    "management.uaa_location",
    "management_agent.*",
    "memory_monitor_interval",
    "message_containers.*",
    "message_interceptors.*",
    "message_store_shutdown_timeout",
    "metadata_store.*",
    "mirroring_sync_batch_size",
    "mirroring_sync_max_throughput",
    "mnesia_table_loading_retry_limit",
    "mnesia_table_loading_retry_timeout",
    "motd_file",
    "mqtt.*",
    "msg_store_file_size_limit",
    "net_ticktime",
    "node_tags.*",
    "num_acceptors.*",
    "osiris.*",
    "password_hashing_module",
    "prometheus.*",
    "queue_federation.*",
    "queue_index_embed_msgs_below",
    "queue_leader_locator",
    "queue_master_locator",
    "quorum_queue.*",
    "raft.*",
    "ranch_connection_max",
    "reverse_dns_lookups",
    "runtime_parameters.*",
    "session_max_per_connection",
    "shovel.*",
    "socket_writer.*",
    "ssl_allow_poodle_attack",
    "ssl_handshake_timeout",
    "ssl_options",
    "ssl_options.bypass_pem_cache",
    "ssl_options.client_renegotiation",
    "ssl_options.depth",
    "ssl_options.dh",
    "ssl_options.dhfile",
    "ssl_options.honor_cipher_order",
    "ssl_options.honor_ecc_order",
    "ssl_options.log_alert",
    "ssl_options.log_level",
    "ssl_options.psk_identity",
    "ssl_options.reuse_sessions",
    "ssl_options.secure_renegotiate",
    "stomp.*",
    "stream.*",
    "stream_queue.*",
    "sysmon_handler.*",
    "tcp_listen_options",
    "tcp_listen_options.*",
    "total_memory_available_override_value",
    "tracing.*",
    "track_auth_attempt_source",
    "trust_store.*",
    "vhost_restart_strategy",
    "vm_memory_calculation_strategy",
    "vm_memory_high_watermark_paging_ratio",
    "web_dispatch.*",
    "web_mqtt.*",
    "web_stomp.*",
)
"""Keys of RabbitMQ that change nothing here: a warning names them."""

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
