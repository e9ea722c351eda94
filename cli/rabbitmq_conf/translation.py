"""Makes settings of the entries of `rabbitmq.conf`.

A value that cannot be honoured stops the start. So does a key that would make the server less
strict if it were ignored. Other keys without a meaning here are named in a warning.
"""

import ipaddress
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from amqp_server.upkeep.resource_sensor import available_memory_bytes
from cli.rabbitmq_conf import values
from cli.rabbitmq_conf.entries import Entry, find_files, read_entries
from cli.rabbitmq_conf.keys import (
    ALTERNATIVES,
    OPTIONS,
    TLS,
    TOGETHER,
    Translate,
    matches,
    nearest,
    why_without_effect,
)
from cli.rabbitmq_conf.less_strict import refuse_less_strict
from cli.rabbitmq_conf.without_effect import WITHOUT_EFFECT

EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - what a port without an address means in RabbitMQ
PASSWORD_BYTES_MAX: Final = 1024
_LOCAL_BACKENDS: Final = (
    "local",
    "local_filesystem",
    "rabbit_definitions_import_local_filesystem",
    "rabbitmq_definitions_import_local_filesystem",
)
_BACKENDS: Final[Mapping[str, str]] = {
    "internal": "internal",
    "rabbit_auth_backend_internal": "internal",
    "http": "http",
    "rabbit_auth_backend_http": "http",
    "oauth": "oauth2",
    "oauth2": "oauth2",
    "rabbit_auth_backend_oauth2": "oauth2",
}
_TLS_VERSIONS: Final[Mapping[str, str]] = {"tlsv1.2": "1.2", "tlsv1.3": "1.3"}
_OLD_TLS_VERSIONS: Final = ("tlsv1.1", "tlsv1", "sslv3")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that a file makes.

    Attributes:
        value: What a user would write behind our option; a truth value for a flag.
        entry: The line that it comes from.
    """

    value: str | bool
    entry: Entry


@dataclass(slots=True)
class Translation:
    """Settings that files contain.

    Attributes:
        settings: Settings by the name of our option, without dashes.
        password: Password of the default user, if a file has it.
        trusts_proxies: Line that switches the PROXY protocol on, if there is one: which proxies are
            trusted has to be set elsewhere.
        key_password: Line with the password of the TLS key: our option takes a file.
        warnings: Lines for the log, such as the keys that have no effect.
    """

    settings: dict[str, Setting] = field(default_factory=dict)
    password: Setting | None = None
    trusts_proxies: Entry | None = None
    key_password: Entry | None = None
    warnings: list[str] = field(default_factory=list)

    def put(self, option: str, value: str | bool, entry: Entry) -> None:
        """Add a setting.

        Raises:
            ConfMistakeError: Another key has set the option to another value.
        """
        before = self.settings.get(option)
        if before is not None and before.value != value:
            raise entry.mistake(
                f"contradicts {before.entry.key} in line {before.entry.line} of "
                f"{before.entry.path}: both are --{option} here"
            )
        self.settings[option] = Setting(value, entry)


def read_rabbitmq_conf(
    path: Path, options: Collection[str], environment: Mapping[str, str] = os.environ
) -> Translation:
    """Return the settings that a file, or the files of a directory, make.

    Args:
        path: File or directory; see `find_files`.
        options: Names of the options that the server has.
        environment: Values of `$(NAME)`.

    Raises:
        ConfMistakeError: A file cannot be read, or an entry cannot be used.
    """
    entries = [entry for file in find_files(path) for entry in read_entries(file, environment)]
    translation = translate(entries, options)
    advanced = path / "advanced.config" if path.is_dir() else path.with_name("advanced.config")
    if advanced.exists():
        translation.warnings.append(f"{advanced} is not read: it is for RabbitMQ")
    return translation


def translate(entries: Iterable[Entry], options: Collection[str]) -> Translation:
    """Return the settings of entries; of a key that is there twice, the last entry counts.

    Args:
        entries: The entries, in the order in which they are read.
        options: Names of the options that the server has.

    Raises:
        ConfMistakeError: An entry cannot be used.
    """
    latest: dict[tuple[str, ...], Entry] = {}
    result = Translation()
    for entry in entries:
        before = latest.pop(entry.parts, None)
        if before is not None and before.path == entry.path and before.value != entry.value:
            result.warnings.append(f"{entry.place}: replaces the value of line {before.line}")
        latest[entry.parts] = entry
    for pair in ALTERNATIVES:
        _keep_last(latest, pair, result)
    useless = _put_single(latest, options, result)
    found = _Entries(latest)
    for put in _COMBINED:
        useless += put(found, result)
    known = [option for option in result.settings if option in options]
    result.settings = {option: result.settings[option] for option in known}
    if useless:
        by_reason: dict[str, list[str]] = {}
        for each in useless:
            place = f"{each.key} ({each.path}:{each.line})"
            by_reason.setdefault(why_without_effect(each.parts), []).append(place)
        keys = "; ".join(f"{', '.join(places)}: {why}" for why, places in by_reason.items())
        result.warnings.append(f"keys of RabbitMQ that have no effect here: {keys}")
    return result


def _keep_last(
    entries: dict[tuple[str, ...], Entry], pair: tuple[str, str], result: Translation
) -> None:
    """Remove the first of two entries that say the same in two ways: the last one counts."""
    keys = {tuple(key.split(".")) for key in pair}
    given = [parts for parts in entries if parts in keys]
    if len(given) == len(pair):
        replaced, last = entries.pop(given[0]), entries[given[1]]
        result.warnings.append(
            f"{last.place}: replaces {replaced.key} of {replaced.path}:{replaced.line}"
        )


def _put_single(
    entries: Mapping[tuple[str, ...], Entry], options: Collection[str], result: Translation
) -> list[Entry]:
    """Put the keys that are one option each; return those without effect."""
    useless = []
    listens_for_tls = any(parts[:2] == ("listeners", "ssl") for parts in entries)
    for parts, entry in entries.items():
        key = ".".join(parts)
        if key in OPTIONS or key in TLS:
            option, translation = OPTIONS[key] if key in OPTIONS else TLS[key]
            value = _value(entry, translation)
            if option in options and (key in OPTIONS or listens_for_tls):
                result.put(option, value, entry)
            else:
                useless.append(entry)
        elif any(matches(pattern, parts) for pattern in TOGETHER):
            continue
        elif any(matches(pattern, parts) for pattern in WITHOUT_EFFECT):
            refuse_less_strict(entry)
            useless.append(entry)
        else:
            near = nearest(key, parts)
            advice = f": did you mean {near}?" if near else ""
            raise entry.mistake(f"is no key that RabbitMQ has{advice}")
    return useless


def _value(entry: Entry, translation: Translate) -> str | bool:
    try:
        return translation(entry.value)
    except ValueError as error:
        raise entry.mistake(str(error)) from error


class _Entries:
    """The entries that count, by key."""

    def __init__(self, entries: Mapping[tuple[str, ...], Entry]) -> None:
        self._entries = entries

    def get(self, key: str) -> Entry | None:
        return self._entries.get(tuple(key.split(".")))

    def below(self, pattern: str) -> list[Entry]:
        """Return the entries that a pattern means, in the order of their keys."""
        found = [parts for parts in self._entries if matches(pattern, parts)]
        return [self._entries[parts] for parts in sorted(found, key=_by_number)]


def _by_number(parts: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((int(part) if part.isdecimal() else -1, part) for part in parts)


# Each puts settings that several keys make together, and returns keys without effect.


def _put_listeners(found: _Entries, result: Translation) -> list[Entry]:
    plain = _addresses(found, "listeners.tcp")
    encrypted = _addresses(found, "listeners.ssl")
    none = found.get("listeners.tcp")
    if none is not None and not encrypted:
        raise none.mistake("without listeners.ssl the server would not listen at all")
    # RabbitMQ listens without TLS on all addresses unless it is told not to.
    _put_addresses(plain or encrypted or [], "host", "port" if plain else None, result)
    _put_addresses(encrypted or [], "tls-host", "tls-port", result)
    if none is not None:
        result.put("tls-only", True, none)
    tls_host = result.settings.get("tls-host")
    if tls_host is not None and tls_host.value == result.settings["host"].value:
        del result.settings["tls-host"]
    if plain is None and not encrypted:
        result.warnings.append(
            "rabbitmq.conf has no listeners: where --host does not say otherwise, the server is "
            "reached from this machine only; RabbitMQ would be from everywhere. Write "
            "listeners.tcp.default = 5672 for that"
        )
    return []


def _addresses(found: _Entries, family: str) -> list[tuple[str, str, Entry]] | None:
    """Return host, port and entry of each listener; None if the files say nothing."""
    none = found.get(family)
    if none is not None:
        if none.value != "none":
            raise none.mistake(f"{none.value!r} is not none: write {family}.default = PORT")
        return []
    listeners: dict[tuple[str, str], Entry] = {}
    for entry in found.below(f"{family}.$"):
        address = _address(entry)
        before = listeners.setdefault(address, entry)
        if before is not entry and address[1] != "0":
            raise entry.mistake(f"the same address and port as {before.key} in line {before.line}")
    return [(host, port, entry) for (host, port), entry in listeners.items()] or None


def _address(entry: Entry) -> tuple[str, str]:
    host, colon, port = entry.value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = _value(entry, lambda _: values.port(port))
    assert isinstance(number, str)
    if not colon:
        return EVERYWHERE, number
    try:
        return str(ipaddress.ip_address(host)), number
    except ValueError:
        raise entry.mistake(
            f"{host!r} is not an IP address: write 127.0.0.1:5672 or [::1]:5672"
        ) from None


def _put_addresses(
    listeners: list[tuple[str, str, Entry]], hosts: str, ports: str | None, result: Translation
) -> None:
    """Put listeners as hosts and one port, or as addresses that name their ports.

    Args:
        listeners: Host, port and entry of each.
        hosts: Option for the hosts.
        ports: Option for the port; None: only the hosts count.
        result: Gets the settings.
    """
    if not listeners:
        return
    entry = listeners[0][2]
    numbers = {port for _, port, _ in listeners}
    if ports is None or len(numbers) == 1:
        names = ",".join(dict.fromkeys(host for host, _, _ in listeners))
        if ports is not None:
            result.put(ports, numbers.pop(), entry)
    else:
        names = ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port, _ in listeners
        )
    result.put(hosts, names, entry)


def _put_tls(found: _Entries, result: Translation) -> list[Entry]:
    inline = [found.get("ssl_options.cert"), *found.below("ssl_options.key.$")]
    for entry in (*inline, *found.below("ssl_options.cacerts.$")):
        if entry is not None:
            raise entry.mistake("write certificates and keys into files: certfile, keyfile")
    crl_check = found.get("ssl_options.crl_check")
    if crl_check is not None and crl_check.value != "false":
        raise crl_check.mistake("this server checks no lists of revoked certificates")
    versions = found.below("ssl_options.versions.$")
    ciphers = found.below("ssl_options.ciphers.$")
    password = found.get("ssl_options.password")
    if not found.below("listeners.ssl.$"):
        return [*versions, *ciphers, *([password] if password else [])]
    result.key_password = password
    _put_versions(versions, result)
    # Those of TLS 1.3 are fixed, and Erlang's own notation has commas.
    names = [entry.value for entry in ciphers if not entry.value.startswith("TLS_")]
    for entry in ciphers:
        if "," in entry.value or ":" in entry.value:
            raise entry.mistake("write one suite as OpenSSL does: ECDHE-ECDSA-AES256-GCM-SHA384")
    if names:
        result.put("tls-ciphers", ":".join(names), ciphers[0])
    return []


def _put_versions(versions: list[Entry], result: Translation) -> None:
    wanted = []
    for entry in versions:
        if entry.value in _TLS_VERSIONS:
            wanted.append(_TLS_VERSIONS[entry.value])
        elif entry.value in _OLD_TLS_VERSIONS:
            result.warnings.append(f"{entry.place}: {entry.value} is not offered: it is not safe")
        else:
            raise entry.mistake(f"{entry.value!r} is neither tlsv1.2 nor tlsv1.3")
    if wanted:
        result.put("tls-versions", ",".join(sorted(set(wanted))), versions[0])
    elif versions:
        raise versions[0].mistake("this server has TLS 1.2 and 1.3: add tlsv1.2 or tlsv1.3")


def _put_default_user(found: _Entries, result: Translation) -> list[Entry]:
    password = found.get("default_pass")
    if password is not None:
        if not 0 < len(password.value.encode()) <= PASSWORD_BYTES_MAX:
            raise password.mistake(f"the password must have 1 to {PASSWORD_BYTES_MAX} bytes")
        result.password = Setting(password.value, password)
    for entry in found.below("default_permissions.$"):
        if entry.value != ".*":
            raise entry.mistake(
                "the default user has all rights here: give others theirs by load_definitions, or "
                "by `amqp-server permissions set`"
            )
    tags = found.below("default_user_tags.$")
    given = {entry.parts[1] for entry in tags if _value(entry, values.truth)}
    for entry in tags:
        if "administrator" not in given:
            raise entry.mistake(
                "the default user is an administrator here: write default_user_tags.administrator "
                "= true, or make the user by load_definitions"
            )
    return [entry for entry in tags if entry.parts[1] in given - {"administrator"}]


def _put_loopback_users(found: _Entries, result: Translation) -> list[Entry]:
    none = found.get("loopback_users")
    if none is not None:
        if none.value != "none":
            raise none.mistake("write none, or loopback_users.USER = true")
        result.put("guest-from-anywhere", True, none)
        return found.below("loopback_users.$")
    for entry in found.below("loopback_users.$"):
        is_bound = _value(entry, values.truth)
        if entry.parts[1] == "guest":
            result.put("guest-from-anywhere", not is_bound, entry)
        elif is_bound:
            raise entry.mistake("only guest can be kept to this machine here")
    return []


def _check_logins(found: _Entries, _result: Translation) -> list[Entry]:
    mechanisms = found.below("auth_mechanisms.$")
    known = ("PLAIN", "AMQPLAIN", "EXTERNAL")
    names = {entry.value for entry in mechanisms}
    if mechanisms and not names & {"PLAIN", "AMQPLAIN"}:
        raise mechanisms[0].mistake("logins by password cannot be switched off here: add PLAIN")
    return [entry for entry in mechanisms if entry.value not in known]


def _put_backends(found: _Entries, result: Translation) -> list[Entry]:
    names = []
    entries = found.below("auth_backends.*")
    cached = found.get("auth_cache.cached_backend")
    for entry in entries:
        if len(entry.parts) != 2:
            raise entry.mistake("who lets a user in also says here what the user may do")
        value = entry.value
        if value in ("cache", "rabbit_auth_backend_cache"):
            # Ours remembers answers by itself.
            value = cached.value if cached is not None else "internal"
        name = _BACKENDS.get(value)
        if name is None:
            raise entry.mistake(
                f"there is no backend {value!r} here, only internal, http and oauth2"
            )
        if name not in names:
            names.append(name)
    if names not in ([], ["internal"]):
        result.put("auth-backends", ",".join(names), entries[0])
    return _put_tokens(found, result, is_used="oauth2" in names)


def _put_tokens(found: _Entries, result: Translation, *, is_used: bool) -> list[Entry]:
    keys = found.below("auth_oauth2.signing_keys.$")
    claims = found.below("auth_oauth2.preferred_username_claims.$")
    algorithms = found.below("auth_oauth2.algorithms.$")
    aliases = found.below("auth_oauth2.scope_aliases.*")
    servers = found.below("auth_oauth2.resource_servers.*")
    providers = found.below("auth_oauth2.oauth_providers.*")
    syntax = found.get("auth_oauth2.scope_pattern_syntax")
    if not is_used:
        rest = [syntax] if syntax is not None else []
        return [*keys, *claims, *algorithms, *aliases, *servers, *providers, *rest]
    for entry in (*servers, *providers):
        raise entry.mistake("this server is one resource server with one provider of tokens")
    if syntax is not None and syntax.value != "wildcard":
        raise syntax.mistake("scopes have wildcards here, no regular expressions")
    for option, entries, texts in (
        ("auth-oauth2-signing-keys", keys, [f"{each.parts[2]}={each.value}" for each in keys]),
        ("auth-oauth2-preferred-username-claims", claims, [each.value for each in claims]),
        ("auth-oauth2-algorithms", algorithms, [each.value for each in algorithms]),
        ("auth-oauth2-scope-aliases", aliases, _aliases(aliases)),
    ):
        for entry, text in zip(entries, texts, strict=False):
            if "," in text:
                raise entry.mistake(f"{text!r} has a comma, which separates entries here")
        if entries:
            result.put(option, ",".join(texts), entries[0])
    return []


def _aliases(entries: list[Entry]) -> list[str]:
    """Return aliases of scopes: `scope_aliases.ALIAS = SCOPES`, or `.N.alias` and `.N.scope`."""
    texts, numbered = [], defaultdict[str, dict[str, str]](dict)
    for entry in entries:
        if len(entry.parts) == 3:
            texts.append(f"{entry.parts[2]}={entry.value}")
        elif len(entry.parts) == 4 and entry.parts[3] in ("alias", "scope"):
            numbered[entry.parts[2]][entry.parts[3]] = entry.value
        else:
            raise entry.mistake("write scope_aliases.ALIAS = SCOPES")
    for pair in numbered.values():
        if len(pair) != 2:
            raise entries[0].mistake("each alias needs both .N.alias and .N.scope")
        texts.append(f"{pair['alias']}={pair['scope']}")
    return texts


def _put_definitions(found: _Entries, result: Translation) -> list[Entry]:
    backend = found.get("definitions.import_backend")
    if backend is not None and backend.value not in _LOCAL_BACKENDS:
        raise backend.mistake("only local_filesystem: fetch the file before the start")
    url = found.get("definitions.https.url")
    if url is not None:
        raise url.mistake("fetch the file before the start, and write definitions.local.path")
    for key in ("load_definitions", "management.load_definitions", "definitions.local.path"):
        entry = found.get(key)
        if entry is not None:
            result.put("load-definitions", entry.value, entry)
    return []


def _put_disk(found: _Entries, result: Translation) -> list[Entry]:
    relative = found.get("disk_free_limit.relative")
    if relative is not None:
        times = _value(relative, lambda text: str(values.factor(text)))
        limit = int(float(times) * available_memory_bytes())
        result.put("disk-free-limit", str(limit), relative)
    return []


def _put_log(found: _Entries, result: Translation) -> list[Entry]:
    """Put level and format of the one log that there is: the console's count most."""
    useless = []
    for option, keys, translation in (
        (
            "log-level",
            ("log.console.level", "log.file.level", "log.default.level", "log.level"),
            values.log_level,
        ),
        ("log-format", ("log.console.formatter", "log.file.formatter"), values.log_format),
    ):
        given = [entry for key in keys if (entry := found.get(key)) is not None]
        translated: list[tuple[Entry, str | bool]] = [
            (entry, _value(entry, translation)) for entry in given
        ]
        for number, (entry, value) in enumerate(translated):
            if number == 0:
                result.put(option, value, entry)
            elif value != translated[0][1]:
                useless.append(entry)
    return useless


def _put_management(found: _Entries, result: Translation) -> list[Entry]:
    origins = found.below("management.cors.allow_origins.$")
    if origins:
        result.put("management-cors-origin", ",".join(entry.value for entry in origins), origins[0])
    encrypted, plain = found.get("management.ssl.port"), found.get("management.tcp.port")
    if encrypted is not None and plain is None:
        # As in RabbitMQ: the API listens without TLS only where the file says so.
        result.put("management-port", "0", encrypted)
    return []


def _note_proxies(found: _Entries, result: Translation) -> list[Entry]:
    entry = found.get("proxy_protocol")
    if entry is not None and _value(entry, values.truth):
        result.trusts_proxies = entry
    return []


_COMBINED: Final[tuple[Callable[[_Entries, Translation], list[Entry]], ...]] = (
    _put_listeners,
    _put_tls,
    _put_default_user,
    _put_loopback_users,
    _check_logins,
    _put_backends,
    _put_definitions,
    _put_disk,
    _put_log,
    _put_management,
    _note_proxies,
)
