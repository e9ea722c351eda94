"""Verbs of certificates, TLS and names of hosts."""

from __future__ import annotations

import socket
import ssl
import time

from cli.rabbitmq_tools.failures import DATA, UNAVAILABLE, ToolFailedError, UsageError
from cli.rabbitmq_tools.output import Message
from cli.rabbitmq_tools.values import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
_FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


def certificates(call: Call) -> Message:
    """Show the certificates of the server, and until when they are valid."""
    call.banner(f"Certificates of node {call.node} ...")
    found = {path: _decoded(path) for path in _paths(call)}
    lines = [
        f"{path}\n  subject: {_name(each['subject'])}\n  issuer: {_name(each['issuer'])}\n"
        f"  valid: {each['notBefore']} - {each['notAfter']}"
        for path, each in found.items()
    ]
    value = {
        path: {
            "subject": _name(each["subject"]),
            "issuer": _name(each["issuer"]),
            "not_before": each["notBefore"],
            "not_after": each["notAfter"],
        }
        for path, each in found.items()
    }
    return Message("\n".join(lines) or "#{}", value)


def check_certificate_expiration(call: Call) -> Message:
    """Check that no certificate of the server ends within a time."""
    unit = call.options.get("unit", "weeks")
    within = call.options.get("within", "4")
    if unit not in _DAYS:
        known = ", ".join(_DAYS)
        raise UsageError(f"\"unit '{unit}' is not supported. Please use one of: {known}\"")
    if not within.isdecimal():
        raise UsageError(f"--within is {within}, must be a whole number")
    call.banner(f"Checking certificate expiration on node {call.node} ...")
    until = time.time() + int(within) * _DAYS[unit] * 86_400
    ends = {path: str(_decoded(path)["notAfter"]) for path in _paths(call)}
    soon = {path: end for path, end in ends.items() if ssl.cert_time_to_seconds(end) < until}
    if soon:
        text = "\n".join(f"Certificate {path} expires on {end}" for path, end in soon.items())
        if call.formatter == "json":
            text = as_json({"result": "error", "expired": soon})
            raise ToolFailedError(UNAVAILABLE, text, has_prefix=False)
        raise ToolFailedError(UNAVAILABLE, text)
    return Message(f"No certificates are expiring within {within} {unit}.", {"result": "ok"})


def tls_versions(call: Call) -> Message:
    """List the versions of TLS that the server has."""
    call.banner("Listing all TLS versions supported by the runtime...")
    return Message("tlsv1.3\ntlsv1.2", {"versions": ["tlsv1.3", "tlsv1.2"]})


def cipher_suites(call: Call) -> Message:
    """List the cipher suites that the server offers unless it is told others."""
    call.banner("Listing available cipher suites in OpenSSL format")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = [str(each["name"]) for each in context.get_ciphers()]
    return Message("\n".join(names), {"cipher_suites": names})


def resolve_hostname(call: Call) -> Message:
    """Show the addresses of a host, as this machine resolves its name."""
    name = call.arguments[0]
    family = call.options.get("address-family", "IPv4")
    if family.lower() not in _FAMILIES:
        text = f"unsupported IP address family {family}. Valid values are: ipv4, ipv6"
        raise UsageError(f"Bad argument: {text}", DATA)
    call.banner(f"Asking node {call.node} to resolve hostname {name} to {family} addresses...")
    try:
        found = socket.getaddrinfo(name, None, _FAMILIES[family.lower()], socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        text = "Hostname does not resolve (resolution failed with an nxdomain)"
        raise ToolFailedError(DATA, text) from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    return Message("\n".join(addresses), {"addresses": addresses})


def resolver_info(call: Call) -> Message:
    """Say that the operating system resolves names of hosts."""
    call.banner(
        f"Asking node {call.node} for its effective hostname resolver (inetrc) configuration..."
    )
    return Message(
        "\x1b[1mRuntime Hostname Resolver (inetrc) Settings\x1b[0m\n\nLookup order: native\n"
        "Hosts file: /etc/hosts\nResolver conf file: /etc/resolv.conf\nCache size: \n\n"
        "\x1b[1minetrc File Host Entries\x1b[0m\n\n(none)",
        {"lookup": ["native"]},
    )


def _paths(call: Call) -> list[str]:
    """Return the files of the certificates that the server uses."""
    found = call.ask("settings.list")
    names = f"{found['tls_certificate']},{found['management_tls_certificate']}".split(",")
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def _decoded(path: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
    except (OSError, ssl.SSLError) as error:
        text = f"certificate {path} cannot be read: {error}"
        raise ToolFailedError(UNAVAILABLE, text) from error
    return found


def _name(parts: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    return ",".join(f"{name}={value}" for part in reversed(parts) for name, value in part)
