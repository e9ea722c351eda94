"""`rabbitmq.conf` as a source of settings: which settings it makes, and what it refuses."""

import re
from pathlib import Path

import pytest

from amqp_server.base.config import ServerConfig
from amqp_server.upkeep.resource_sensor import available_memory_bytes
from cli.main import command, main
from cli.rabbitmq_conf.keys import KNOWN, OPTIONS, TLS, matches, nearest
from cli.rabbitmq_conf.without_effect import REASONS
from cli.settings import ServerOption, rabbitmq_translation
from tests.amqp_client import connect
from tests.cli.conftest import Refuse, Start
from tests.conftest import StartServer
from tests.servers import REPOSITORY


def write_conf(directory: Path, text: str, name: str = "rabbitmq.conf") -> str:
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def warnings(*arguments: str) -> list[str]:
    """Return the lines that a start with these arguments logs about RabbitMQ's file."""
    with command.make_context("amqp-server", list(arguments)) as ctx:
        found = rabbitmq_translation(ctx)
        assert found is not None
        return found.warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("heartbeat = 30", {"heartbeat_seconds": 30.0}),
        ("heartbeat = 0", {"heartbeat_seconds": 0.0}),
        ("consumer_timeout = 1800000", {"consumer_timeout_seconds": 1800.0}),
        ("channel_max = 100", {"channels_per_connection_max": 100}),
        ("channel_max = 0", {"channels_per_connection_max": 65_535}),
        ("frame_max = 64KB", {"frame_bytes_max": 65_536}),
        ("frame_max = 0", {"frame_bytes_max": 2**20}),
        ("connection_max = infinity", {"connections_max": 1_000_000}),
        ("connection_max = 50", {"connections_max": 50}),
        ("vhost_max = 50", {"vhosts_max": 50}),
        ("max_message_size = 16777216", {"max_message_bytes": 2**24}),
        ("vm_memory_high_watermark.relative = 0.4", {"memory_watermark": 0.4}),
        ("vm_memory_high_watermark.absolute = 2GB", {"memory_watermark": 2 * 10**9}),
        ("vm_memory_high_watermark.absolute = 2GiB", {"memory_watermark": 2 * 2**30}),
        ("vm_memory_high_watermark.absolute = 512M", {"memory_watermark": 512 * 2**20}),
        ("vm_memory_high_watermark.relative = 0", {"memory_watermark": 0.0}),
        ("vm_memory_high_watermark.absolute = 0", {"memory_watermark": 0.0}),
        (
            "vm_memory_high_watermark.relative = 0.5\nvm_memory_high_watermark.absolute = 1GB",
            {"memory_watermark": 10**9},
        ),
        (
            "vm_memory_high_watermark.absolute = 1GB\nvm_memory_high_watermark.relative = 0.5",
            {"memory_watermark": 0.5},
        ),
        ("disk_free_limit.absolute = 50MB", {"disk_free_limit_bytes": 50_000_000}),
        (
            "disk_free_limit.relative = 1.5\ndisk_free_limit.absolute = 50MB",
            {"disk_free_limit_bytes": 50_000_000},
        ),
        (
            "disk_free_limit.relative = 1.5",
            {"disk_free_limit_bytes": int(1.5 * available_memory_bytes())},
        ),
        ("default_vhost = shop", {"default_vhost": "shop"}),
        (
            "default_user = ops\ndefault_pass = 'a#b '",
            {"default_user": "ops", "default_password": "a#b "},
        ),
        ("default_pass = a#b", {"default_password": "a"}),
        ('default_pass = "a"', {"default_password": '"a"'}),
        ("default_user_tags.administrator = true\ndefault_permissions.read = .*", {}),
        ("loopback_users = none", {"guest_from_anywhere": True}),
        ("loopback_users.guest = false", {"guest_from_anywhere": True}),
        ("loopback_users.guest = true", {}),
        ("load_definitions = d.json", {"load_definitions": Path("d.json")}),
        ("management.load_definitions = d.json", {"load_definitions": Path("d.json")}),
        (
            "definitions.import_backend = local_filesystem\ndefinitions.local.path = /etc/d",
            {"load_definitions": Path("/etc/d")},
        ),
        ("product.name = Rabbit", {"present_product": "Rabbit"}),
        ("product.version = 3.13.7", {"present_version": "3.13.7"}),
        (
            "ssl_cert_login_from = subject_alt_name\nssl_cert_login_san_type = email",
            {
                "ssl_cert_login_from": "subject_alternative_name",
                "ssl_cert_login_san_type": "email",
            },
        ),
        ("log.console.level = debug", {"log_level": "debug"}),
        ("log.file.level = warning", {"log_level": "warning"}),
        ("log.default.level = notice", {}),
        ("log.file.level = debug\nlog.console.level = error", {"log_level": "error"}),
        ("log.console.formatter = json", {"log_format": "json"}),
        ("auth_mechanisms.1 = PLAIN\nauth_backends.1 = internal", {}),
        (
            "auth_backends.1 = internal\nauth_backends.2 = rabbit_auth_backend_http\n"
            "auth_http.http_method = post\n"
            "auth_http.user_path = http://a/u?x=1\nauth_http.vhost_path = http://a/v\n"
            "auth_http.resource_path = http://a/r\nauth_http.topic_path = https://a/t",
            {
                "auth_backends": "internal,http",
                "auth_http_method": "post",
                "auth_http_user_path": "http://a/u?x=1",
                "auth_http_vhost_path": "http://a/v",
                "auth_http_resource_path": "http://a/r",
                "auth_http_topic_path": "https://a/t",
            },
        ),
        (
            "auth_backends.1 = cache\nauth_cache.cached_backend = oauth2\n"
            "auth_oauth2.resource_server_id = mq\nauth_oauth2.jwks_url = https://a/keys\n"
            "auth_oauth2.signing_keys.k1 = /a.pem\nauth_oauth2.signing_keys.k2 = /b.pem\n"
            "auth_oauth2.default_key = k1\nauth_oauth2.verify_aud = false\n"
            "auth_oauth2.preferred_username_claims.1 = a\n"
            "auth_oauth2.preferred_username_claims.2 = b\n"
            "auth_oauth2.algorithms.1 = ES256\nauth_oauth2.scope_aliases.x = mq.read:*/* y\n"
            "auth_oauth2.scope_aliases.1.alias = z\nauth_oauth2.scope_aliases.1.scope = w",
            {
                "auth_backends": "oauth2",
                "auth_oauth2_resource_server_id": "mq",
                "auth_oauth2_jwks_uri": "https://a/keys",
                "auth_oauth2_signing_keys": "k1=/a.pem,k2=/b.pem",
                "auth_oauth2_default_key": "k1",
                "auth_oauth2_verify_aud": False,
                "auth_oauth2_preferred_username_claims": "a,b",
                "auth_oauth2_algorithms": "ES256",
                "auth_oauth2_scope_aliases": "x=mq.read:*/* y,z=w",
            },
        ),
        ("proxy_protocol = false", {}),
        ("management.tcp.port = 15673", {"management_port": 15_673}),
        ("management.tcp.ip = 10.0.0.1", {"management_host": "10.0.0.1"}),
        ("prometheus.tcp.port = 15693", {"metrics_port": 15_693}),
        (
            "management.ssl.port = 443\nmanagement.ssl.certfile = c\nmanagement.ssl.keyfile = k\n"
            "management.ssl.cacertfile = a\nmanagement.ssl.verify = verify_peer\n"
            "management.ssl.fail_if_no_peer_cert = true",
            {
                "management_tls_port": 443,
                "management_tls_certificate": "c",
                "management_tls_key": "k",
                "management_tls_ca": "a",
                "management_tls_verify": "peer",
                "management_tls_fail_if_no_peer_cert": True,
            },
        ),
        (
            "management.cors.allow_origins.1 = https://a\n"
            "management.cors.allow_origins.2 = https://b",
            {"management_cors_origin": "https://a,https://b"},
        ),
    ],
)
def test_a_key_is_a_setting(
    start: Start, tmp_path: Path, text: str, expected: dict[str, object]
) -> None:
    config = start("--rabbitmq-conf", write_conf(tmp_path, text))

    differing = {
        name: getattr(config, name)
        for name in ServerConfig.__slots__
        if getattr(config, name) != getattr(ServerConfig(), name)
        and name not in MANAGEMENT_FIELDS - expected.keys()
    }
    assert differing == expected


MANAGEMENT_FIELDS = {"management_port", "metrics_port", "management_tls_port", "optional_ports"}
"""What the command has and a server of a program does not."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listeners.tcp.default = 5673", ("0.0.0.0", 5673, False)),
        ("listeners.tcp.1 = 127.0.0.1:5673", ("127.0.0.1", 5673, False)),
        ("listeners.tcp.1 = :::5673", ("::", 5673, False)),
        ("listeners.tcp.1 = [::1]:5673", ("::1", 5673, False)),
        (
            "listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = ::1:5673",
            ("127.0.0.1,::1", 5673, False),
        ),
        ("listeners.tcp = none\nlisteners.ssl.default = 5674", ("0.0.0.0", 5674, True)),
    ],
)
def test_listeners_are_an_address_and_ports(
    start: Start, tmp_path: Path, text: str, expected: tuple[str, int, bool]
) -> None:
    path = write_conf(tmp_path, f"{text}\nssl_options.certfile = c.pem\n")
    config = start("--rabbitmq-conf", path)

    port = config.tls_port if config.tls_only else config.port
    assert (config.host, port, config.tls_only) == expected


def test_tls_counts_where_there_is_a_listener_for_it(start: Start, tmp_path: Path) -> None:
    options = (
        "ssl_options.cacertfile = ca.pem\nssl_options.certfile = c.pem\n"
        "ssl_options.keyfile = k.pem\nssl_options.verify = verify_peer\n"
        "ssl_options.fail_if_no_peer_cert = true\nssl_options.versions.1 = tlsv1.3\n"
        "ssl_options.ciphers.1 = TLS_AES_256_GCM_SHA384\n"
        "ssl_options.ciphers.2 = ECDHE-RSA-AES256-GCM-SHA384\n"
        "ssl_options.ciphers.10 = ECDHE-RSA-AES128-GCM-SHA256\n"
    )
    without = write_conf(tmp_path, options)
    assert start("--rabbitmq-conf", without).tls_certificate == ""
    assert "ssl_options.certfile" in warnings("--rabbitmq-conf", without)[-1]

    config = start(
        "--rabbitmq-conf", write_conf(tmp_path, options + "listeners.ssl.default = 5671")
    )
    assert (config.tls_certificate, config.tls_key, config.tls_ca) == ("c.pem", "k.pem", "ca.pem")
    assert (config.tls_verify, config.tls_fail_if_no_peer_cert) == ("peer", True)
    assert (config.tls_versions, config.tls_port) == ("1.3", 5671)
    assert config.tls_ciphers == "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256"


def test_the_command_line_wins_over_the_environment_our_file_and_rabbitmqs(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rabbitmq = write_conf(
        tmp_path,
        "heartbeat = 1\nchannel_max = 2\nconnection_max = 3\nvhost_max = 4\n",
    )
    ours = write_conf(
        tmp_path, "max-channels = 20\nmax-connections = 30\nheartbeat = '10s'\n", "server.toml"
    )
    monkeypatch.setenv("AMQP_SERVER_MAX_CONNECTIONS", "300")
    monkeypatch.setenv("AMQP_SERVER_HEARTBEAT", "100s")
    arguments = ["--rabbitmq-conf", rabbitmq, "--config", ours, "--heartbeat", "1000s"]

    for order in (arguments, [*arguments[2:4], *arguments[:2], *arguments[4:]]):
        config = start(*order)
        assert config.vhosts_max == 4
        assert config.channels_per_connection_max == 20
        assert config.connections_max == 300
        assert config.heartbeat_seconds == 1000.0


def test_rabbitmqs_variables_win_over_its_file_and_not_over_our_settings(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_conf(tmp_path, "default_user = filed\ndefault_pass = filed\n")
    ours = write_conf(tmp_path, "default-user = 'ours'\n", "server.toml")
    monkeypatch.setenv("RABBITMQ_DEFAULT_USER", "variable")
    monkeypatch.setenv("RABBITMQ_DEFAULT_PASS", "variable")

    config = start("--rabbitmq-conf", path)
    assert (config.default_user, config.default_password) == ("variable", "variable")
    assert start("--rabbitmq-conf", path, "--config", ours).default_user == "ours"


def test_our_own_file_and_the_environment_can_name_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_conf(tmp_path, "heartbeat = 7")
    ours = write_conf(tmp_path, f"rabbitmq-conf = '{path}'", "server.toml")

    assert start("--config", ours).heartbeat_seconds == 7
    monkeypatch.setenv("AMQP_SERVER_RABBITMQ_CONF", path)
    assert start().heartbeat_seconds == 7


def test_a_directory_is_read_as_rabbitmq_reads_its_own(start: Start, tmp_path: Path) -> None:
    write_conf(tmp_path, "heartbeat = 1\nchannel_max = 5\n")
    write_conf(tmp_path, "NODENAME=rabbit\n", "rabbitmq-env.conf")
    write_conf(tmp_path, "heartbeat = 2\n", "conf.d/10-first.conf")
    write_conf(tmp_path, "heartbeat = 3\n", "conf.d/20-second.conf")
    write_conf(tmp_path, "heartbeat = 4\n", "conf.d/30-other.txt")
    write_conf(tmp_path, "[].", "advanced.config")

    config = start("--rabbitmq-conf", str(tmp_path))
    assert (config.heartbeat_seconds, config.channels_per_connection_max) == (3, 5)
    assert f"{tmp_path}/advanced.config is not read: it is for RabbitMQ" in warnings(
        "--rabbitmq-conf", str(tmp_path)
    )
    assert start("--rabbitmq-conf", str(tmp_path / "conf.d")).heartbeat_seconds == 3


def test_an_environment_variable_is_part_of_a_value(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refuse: Refuse
) -> None:
    path = write_conf(tmp_path, "default_pass = x-$(SEED_PASSWORD)\n")

    assert refuse("--rabbitmq-conf", path) == (
        f"{path}:1: default_pass: the environment variable SEED_PASSWORD is not set"
    )
    monkeypatch.setenv("SEED_PASSWORD", "y # z")
    assert start("--rabbitmq-conf", path).default_password == "x-y # z"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hartbeat = 1", ":1: hartbeat: is no key that RabbitMQ has: did you mean heartbeat?"),
        ("\n\nlistener.tcp.1 = 5672", ":3: listener.tcp.1: is no key that RabbitMQ has: did you"),
        ("zzz = 1", ":1: zzz: is no key that RabbitMQ has"),
        ("heartbeat 1", ":1: not a line KEY = VALUE"),
        ("heartbeat =", ":1: heartbeat has no value: write heartbeat = VALUE, or remove the line"),
        ("include other.conf", ":1: include is not supported"),
        ("[{rabbit, []}].", ":1: not a line KEY = VALUE: this looks like the classic format"),
        ("heartbeat = soon", ":1: heartbeat: 'soon' is not a whole number"),
        ("heartbeat = -1", ":1: heartbeat: '-1' is not a whole number"),
        ("heartbeat = 70000", ":1: heartbeat: 70000s is out of bounds: write 0 or 1s to 65535s"),
        ("frame_max = 1", ":1: frame_max: 1 is out of bounds: write 8KiB to 1MiB"),
        ("frame_max = 1XB", ":1: frame_max: '1XB' is not a size"),
        ("vm_memory_high_watermark.relative = 4", ": '4' is not a share of the memory"),
        ("vm_memory_high_watermark.absolute = much", ": 'much' is not a size"),
        ("prometheus.authentication.enabled = true", ": metrics are open to everybody who reaches"),
        ("prometheus.ssl.port = 15691", ": metrics come without TLS: put a proxy with TLS before"),
        ("prometheus.ssl.certfile = a.pem", ": metrics come without TLS"),
        ("management.listener.ssl = true", ": write management.ssl.port, management.ssl.certfile"),
        ("management.disable_basic_auth = true", ": logins by name and password cannot be"),
        (
            "management.restrictions.operator_policy_changes.disabled = true",
            ": whoever is an administrator may change operator policies here",
        ),
        (
            "credential_validator.validation_backend = rabbit_credential_validator_min_length",
            ": this server checks no strength of passwords",
        ),
        ("disk_free_limit.relative = x", ": 'x' is not a number"),
        ("listeners.tcp.default = 70000", ": '70000' is not a port: write 1 to 65535"),
        ("listeners.tcp.default = here:5672", ": 'here' is not an IP address"),
        ("listeners.tcp = none", ":1: listeners.tcp: without listeners.ssl the server would not"),
        ("listeners.tcp = all", ":1: listeners.tcp: 'all' is not none"),
        ("listeners.ssl.1 = 5671", ":1: listeners.ssl.1: has no effect without --tls-certificate"),
        ("loopback_users.ops = true", ": only guest can be kept to this machine here"),
        ("loopback_users.guest = yes", ": 'yes' is neither true nor false"),
        ("default_permissions.write = ^x", ": the default user has all rights here"),
        ("default_user_tags.monitoring = true", ": the default user is an administrator here"),
        ("default_user_tags.administrator = false", ": the default user is an administrator"),
        ("default_user = ops", "user 'ops' needs a password"),
        ("default_pass = ''", ": the password must have 1 to 1024 bytes"),
        ("default_pass = encrypted:abc", ": encrypted values are RabbitMQ's"),
        ("auth_backends.1 = ldap", ":1: auth_backends.1: there is no backend 'ldap' here"),
        (
            "auth_backends.1.authn = http",
            ": who lets a user in also says here what the user may do",
        ),
        ("auth_backends.1 = http", "--auth-http-user-path: '' is missing: the back end http"),
        (
            "auth_backends.1 = oauth2\nauth_oauth2.resource_servers.1.id = x",
            ": this server is one resource server with one provider of tokens",
        ),
        (
            "auth_backends.1 = oauth2\nauth_oauth2.scope_pattern_syntax = regex",
            ": scopes have wildcards here, no regular expressions",
        ),
        (
            "auth_backends.1 = oauth2\nauth_oauth2.scope_aliases.1.alias = x",
            ": each alias needs both .N.alias and .N.scope",
        ),
        ("auth_mechanisms.1 = EXTERNAL", ": logins by password cannot be switched off here"),
        ("definitions.import_backend = https", ": only local_filesystem: fetch the file before"),
        ("ssl_options.crl_check = true", ": this server checks no lists of revoked"),
        ("ssl_options.key.RSAPrivateKey = x", ": write certificates and keys into files"),
        ("proxy_protocol = true", ":1: proxy_protocol: name the networks of the proxies as well"),
        ("ssl_cert_login_san_type = other_name", ":1: ssl_cert_login_san_type: 'other_name' is"),
        ("log.console.level = loud", ": 'loud' is no level: write one of debug, info"),
        ("load_definitions = a\nmanagement.load_definitions = b", ": contradicts load_definitions"),
        ("product.version = 4", ":1: product.version: '4' is not a version of three numbers"),
    ],
)
def test_a_mistake_stops_the_start_with_file_line_and_key(
    refuse: Refuse, tmp_path: Path, text: str, complaint: str
) -> None:
    path = write_conf(tmp_path, text)

    said = refuse("--rabbitmq-conf", path)

    assert complaint in said
    assert said.startswith(path if complaint.startswith(":") else "")


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("ssl_options.password = x", "write the password into a file, and --tls-key-password-file"),
        ("ssl_options.versions.1 = tlsv1.1", "this server has TLS 1.2 and 1.3"),
        ("ssl_options.versions.1 = tls", "'tls' is neither tlsv1.2 nor tlsv1.3"),
        ("ssl_options.ciphers.1 = ecdhe_rsa,aes_256_gcm", "write one suite as OpenSSL does"),
        ("ssl_options.verify = maybe", "'maybe' is neither verify_peer nor verify_none"),
    ],
)
def test_a_mistake_about_tls_stops_the_start(
    refuse: Refuse, tmp_path: Path, key: str, complaint: str
) -> None:
    path = write_conf(
        tmp_path, f"listeners.ssl.default = 5671\nssl_options.certfile = c.pem\n{key}\n"
    )

    said = refuse("--rabbitmq-conf", path)

    assert said.startswith(f"{path}:3: {key.partition(' ')[0]}: ")
    assert complaint in said


def test_what_a_file_cannot_say_may_be_set_beside_it(start: Start, tmp_path: Path) -> None:
    path = write_conf(
        tmp_path,
        "proxy_protocol = true\nlisteners.ssl.default = 5671\nssl_options.certfile = c.pem\n"
        "ssl_options.password = x\n",
    )
    config = start(
        *("--rabbitmq-conf", path, "--proxy-protocol-trusted", "10.0.0.0/8"),
        *("--tls-key-password-file", "word"),
    )
    assert config.proxy_protocol_trusted == "10.0.0.0/8"


@pytest.mark.parametrize("name", ["absent.conf", "empty"])
def test_a_file_that_is_not_there_stops_the_start(
    refuse: Refuse, tmp_path: Path, name: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert refuse("--rabbitmq-conf", str(tmp_path / name)).startswith(f"{tmp_path / name}: ")


def test_a_file_that_is_not_text_stops_the_start(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_bytes(b"heartbeat = 1\n# \xff\n")

    assert refuse("--rabbitmq-conf", str(path)) == f"{path}:2: not UTF-8"


def test_keys_without_effect_are_one_warning_with_their_lines(tmp_path: Path) -> None:
    path = write_conf(
        tmp_path,
        "listeners.tcp.default = 5672\ncluster_name = x\nmqtt.listeners.tcp.1 = 1883\n"
        "tcp_listen_options.backlog = 128\n",
    )

    assert warnings("--rabbitmq-conf", path) == [
        f"keys of RabbitMQ that have no effect here: cluster_name ({path}:2): "
        f"there is no cluster; mqtt.listeners.tcp.1 ({path}:3): other protocols and plugins are "
        f"not there; tcp_listen_options.backlog ({path}:4): there is no Erlang and nothing of its "
        "sockets"
    ]


def test_of_the_mechanisms_only_those_that_are_not_there_have_no_effect(tmp_path: Path) -> None:
    path = write_conf(tmp_path, "auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = RABBIT-CR-DEMO\n")
    told = " ".join(warnings("--rabbitmq-conf", path))
    assert f"auth_mechanisms.2 ({path}:2)" in told
    assert "auth_mechanisms.1" not in told


_SCHEMAS = Path("/usr/lib/rabbitmq")
_NOT_RABBITMQS = {"nodename", "distributed_cookie"}
"""Keys of a library's own schema, which RabbitMQ does not read."""


@pytest.mark.skipif(not _SCHEMAS.is_dir(), reason="RabbitMQ is not installed (Debian)")
def test_every_key_of_the_schemas_of_rabbitmq_is_known() -> None:
    keys = {
        key
        for file in _SCHEMAS.rglob("*.schema")
        for key in re.findall(r'^\s*\{mapping,\s*"([^"]+)"', file.read_text(), re.MULTILINE)
    }
    assert len(keys) > 700
    unknown = {
        key
        for key in keys - _NOT_RABBITMQS
        if not any(matches(known, tuple(key.replace("$", "x").split("."))) for known in KNOWN)
    }
    assert unknown == set()


def test_every_key_without_effect_has_one_reason_and_stands_in_the_documentation() -> None:
    patterns = [pattern for each in REASONS.values() for pattern in each]
    assert len(patterns) == len(set(patterns))
    text = (REPOSITORY / "docs/configuration.md").read_text()
    part = text.partition("### Keys without effect\n")[2].partition("\n## ")[0]
    points = [" ".join(each.split()) for each in re.split(r"\n+- |\n\n", part)]
    for reason, keys in REASONS.items():
        assert f"{reason}: " + ", ".join(f"`{key}`" for key in keys) in points


def test_what_differs_from_rabbitmq_unsaid_is_warned_of(tmp_path: Path) -> None:
    path = write_conf(tmp_path, "heartbeat = 1\nheartbeat = 2\n")

    repeated, unreachable = warnings("--rabbitmq-conf", path)
    assert repeated == f"{path}:2: heartbeat: replaces the value of line 1"
    assert "the server is reached from this machine only" in unreachable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("management.ssl.port = 443", (443, 0)),
        ("management.ssl.port = 443\nmanagement.tcp.port = 80", (443, 80)),
    ],
)
def test_the_api_listens_without_tls_only_where_the_file_says_so(
    start: Start, tmp_path: Path, text: str, expected: tuple[int, int]
) -> None:
    files = "management.ssl.certfile = c\nmanagement.ssl.keyfile = k\n"
    config = start("--rabbitmq-conf", write_conf(tmp_path, f"{files}{text}\n"))

    assert (config.management_tls_port, config.management_port) == expected


def test_the_tables_name_options_that_exist_and_no_key_twice() -> None:
    options = {param.key for param in command.params if isinstance(param, ServerOption)}

    assert {option for option, _ in (*OPTIONS.values(), *TLS.values())} <= options
    assert len(set(KNOWN)) == len(KNOWN)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("listeners.tpc.default", "listeners.tcp.default"),
        ("vm_memory_highwatermark.relative", "vm_memory_high_watermark.relative"),
        ("log.consoles.level", "log.console.level"),
        ("ssl_options.cert_file", "ssl_options.certfile"),
        ("cluster_formations.classic_config.nodes.1", "cluster_formation.classic_config.nodes.1"),
        ("zzz", None),
    ],
)
def test_the_nearest_key_is_a_known_one(wrong: str, right: str | None) -> None:
    parts = tuple(wrong.split("."))
    assert not any(matches(known, parts) for known in KNOWN)
    assert nearest(wrong, parts) == right
    assert right is None or any(matches(known, tuple(right.split("."))) for known in KNOWN)


def test_a_subcommand_does_not_read_it(
    clean_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean_environment.setenv("AMQP_SERVER_RABBITMQ_CONF", write_conf(tmp_path, "zzz = 1"))

    assert main(["inspect", "--help"]) == 0


def test_a_server_starts_with_the_file_of_rabbitmq(
    start_server: StartServer, tmp_path: Path
) -> None:
    definitions = tmp_path / "definitions.json"
    definitions.write_text(
        '{"users": [{"name": "shop", "password": "secret", "tags": ""}],'
        ' "vhosts": [{"name": "orders"}],'
        ' "permissions": [{"user": "shop", "vhost": "orders", "configure": ".*", "write": ".*",'
        ' "read": ".*"}],'
        ' "queues": [{"name": "new", "vhost": "orders", "durable": true, "arguments": {}}]}'
    )
    path = write_conf(
        tmp_path,
        f"listeners.tcp.1 = 127.0.0.1:5672\nload_definitions = {definitions}\n"
        "channel_max = 7\nheartbeat = 20\nqueue_master_locator = min-masters\n",
    )

    server = start_server("--rabbitmq-conf", path)

    line = server.wait_for_message("no effect here")
    assert f"queue_master_locator ({path}:5)" in line
    with connect(server.address, user="shop", password="secret", vhost="orders") as client:
        assert client.channel_max == 7
        client.open_channel()
        assert client.ready_count("new") == 0
