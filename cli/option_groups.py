"""Sections of the server's options on the help page, by subject."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

OTHER: Final = "Other options"

OPTION_GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Where": (
            "host",
            "port",
            "storage-path",
            "ephemeral",
            "config",
            "rabbitmq-conf",
            "log-level",
            "log-format",
        ),
        "Safety and speed": (
            "durability",
            "flush-interval",
            "flush-bytes",
            "offset-checkpoint-interval",
        ),
        "Memory": ("ring-size", "ring-bytes", "ring-bytes-total", "memory-watermark"),
        "Disk": (
            "disk-free-limit",
            "disk-stall-limit",
            "on-disk-stall",
            "segment-bytes",
            "segment-age",
            "compact-below",
            "compression",
            "compression-min-size",
        ),
        "Retention of settled messages": (
            "retain-for",
            "retain-bytes",
            "retain-bytes-total",
            "retain-segments-min",
            "protect-unconsumed",
            "force-remove-after",
        ),
        "Audit log": ("audit-files", "audit-file-size"),
        "Clients": (
            "max-connections",
            "max-channels",
            "max-vhosts",
            "max-message-size",
            "max-frame-size",
            "heartbeat",
            "consumer-timeout",
            "default-user",
            "default-pass-file",
            "default-vhost",
            "load-definitions",
            "guest-from-anywhere",
            "no-shovels",
            "present-product",
            "present-version",
        ),
        "TLS and proxies": (
            "tls-certificate",
            "tls-key",
            "tls-key-password-file",
            "tls-host",
            "tls-port",
            "tls-only",
            "tls-ca",
            "tls-verify",
            "tls-fail-if-no-peer-cert",
            "tls-versions",
            "tls-ciphers",
            "ssl-cert-login-from",
            "ssl-cert-login-san-type",
            "ssl-cert-login-san-index",
            "proxy-protocol-trusted",
        ),
        "Authentication back ends": (
            "auth-backends",
            "auth-timeout",
            "auth-http-method",
            "auth-http-user-path",
            "auth-http-vhost-path",
            "auth-http-resource-path",
            "auth-http-topic-path",
            "auth-http-ca",
            "auth-oauth2-resource-server-id",
            "auth-oauth2-scope-prefix",
            "auth-oauth2-issuer",
            "auth-oauth2-jwks-uri",
            "auth-oauth2-signing-keys",
            "auth-oauth2-default-key",
            "auth-oauth2-verify-aud",
            "auth-oauth2-preferred-username-claims",
            "auth-oauth2-additional-scopes-key",
            "auth-oauth2-scope-aliases",
            "auth-oauth2-algorithms",
            "auth-oauth2-ca",
        ),
        "Management": (
            "management-port",
            "management-host",
            "metrics-port",
            "management-tls-port",
            "management-tls-certificate",
            "management-tls-key",
            "management-tls-ca",
            "management-tls-verify",
            "management-tls-fail-if-no-peer-cert",
            "management-cors-origin",
            "management-hosts",
        ),
    }
)
"""Options of each section of the help page, without the dashes; other options come last."""


class GroupedOptions(click.Group):
    """Command whose help page has a section for each group of options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section, then the subcommands."""
        records = {
            param.opts[0].removeprefix("--"): record
            for param in self.get_params(ctx)
            if (record := param.get_help_record(ctx)) is not None
        }
        for title, options in OPTION_GROUPS.items():
            rows = [records.pop(option) for option in options if option in records]
            with formatter.section(title):
                formatter.write_dl(rows)
        with formatter.section(OTHER):
            formatter.write_dl(list(records.values()))
        self.format_commands(ctx, formatter)
