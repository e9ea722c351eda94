"""Where a setting comes from, and what is said of one that cannot be used."""

from pathlib import Path

import pytest

from amqp_server.base.config import BOUNDS, Durability, ServerConfig
from appendlog import Compression
from cli.main import command
from cli.settings import ServerOption, unknown_variables
from tests.cli.conftest import Refuse, Start


def write_config(directory: Path, text: str) -> str:
    path = directory / "server.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_without_settings_the_server_gets_the_defaults_of_its_configuration(start: Start) -> None:
    """But those of the management server, which only the command starts by itself."""
    assert start() == ServerConfig(
        management_port=15672,
        metrics_port=15692,
        management_tls_port=15671,
        optional_ports=frozenset({"management_port", "metrics_port", "management_tls_port"}),
    )


def test_publishers_are_blocked_before_the_disk_is_full() -> None:
    config = ServerConfig()
    assert config.disk_free_limit_bytes == 256 * 1024 * 1024
    assert config.disk_free_limit_bytes == 4 * config.segment_bytes


def test_every_option_reaches_its_field(start: Start, tmp_path: Path) -> None:
    config = start(
        *("--host", "::1", "--port", "0", "--storage-path", str(tmp_path)),
        *("--offset-checkpoint-interval", "0", "--ring-size", "2048", "--ring-bytes", "1MiB"),
        *("--ring-bytes-total", "8MiB", "--durability", "write", "--flush-bytes", "64KiB"),
        *("--flush-interval", "2ms", "--retain-for", "7d", "--max-message-size", "1MB"),
        *("--compact-below", "40%", "--retain-bytes", "1GiB", "--retain-bytes-total", "9GiB"),
        *("--retain-segments-min", "3", "--protect-unconsumed", "false"),
        *("--force-remove-after", "30d"),
        *("--log-level", "debug", "--log-format", "json"),
        *("--guest-from-anywhere", "--no-shovels", "--memory-watermark", "2GiB"),
        *("--compression", "zstd", "--compression-min-size", "4KiB"),
        *("--segment-bytes", "1MiB", "--segment-age", "1h"),
        *("--disk-free-limit", "1GiB", "--consumer-timeout", "30m"),
        *("--disk-stall-limit", "10s", "--on-disk-stall", "exit"),
        *("--present-product", "RabbitMQ", "--present-version", "3.13.7"),
        *("--tls-certificate", "a.pem,b.pem", "--tls-key", "a.key,b.key", "--tls-port", "0"),
        *("--tls-key-password-file", "word", "--tls-only", "--tls-ca", "ca.pem"),
        *("--tls-verify", "peer", "--tls-fail-if-no-peer-cert", "--tls-versions", "1.3"),
        *("--ssl-cert-login-from", "subject_alternative_name"),
        *("--ssl-cert-login-san-type", "email", "--ssl-cert-login-san-index", "2"),
        *("--tls-ciphers", "HIGH", "--proxy-protocol-trusted", "10.0.0.0/8, ::1"),
        *("--management-port", "-1", "--metrics-port", "0", "--management-tls-port", "8443"),
        *("--management-host", "::", "--management-cors-origin", "*"),
        *("--management-hosts", "rabbit.example,*.corp.example"),
        *("--management-tls-certificate", "m.pem", "--management-tls-key", "m.key"),
    )

    assert config == ServerConfig(
        host="::1",
        port=0,
        storage_path=tmp_path,
        offset_checkpoint_interval_seconds=0.0,
        ring_size=2048,
        ring_bytes=2**20,
        ring_bytes_total=2**23,
        durability=Durability.WRITE,
        flush_bytes=65_536,
        flush_interval_seconds=0.002,
        compression=Compression.ZSTD,
        compression_bytes_min=4096,
        retain_for_seconds=604_800.0,
        compact_below=0.4,
        retain_bytes=1 << 30,
        retain_bytes_total=9 << 30,
        retain_segments_min=3,
        protect_unconsumed=False,
        force_remove_after_seconds=2_592_000.0,
        segment_bytes=2**20,
        segment_age_seconds=3_600.0,
        consumer_timeout_seconds=1_800.0,
        max_message_bytes=1_000_000,
        log_level="debug",
        log_format="json",
        guest_from_anywhere=True,
        no_shovels=True,
        memory_watermark=2**31,
        disk_free_limit_bytes=2**30,
        disk_stall_limit_seconds=10.0,
        on_disk_stall="exit",
        present_product="RabbitMQ",
        present_version="3.13.7",
        tls_certificate="a.pem,b.pem",
        tls_key="a.key,b.key",
        tls_key_password_file="word",
        tls_port=0,
        tls_only=True,
        tls_ca="ca.pem",
        tls_verify="peer",
        tls_fail_if_no_peer_cert=True,
        tls_versions="1.3",
        tls_ciphers="HIGH",
        ssl_cert_login_from="subject_alternative_name",
        ssl_cert_login_san_type="email",
        ssl_cert_login_san_index=2,
        proxy_protocol_trusted="10.0.0.0/8, ::1",
        management_port=-1,
        metrics_port=0,
        management_tls_port=8443,
        management_host="::",
        management_cors_origin="*",
        management_hosts="rabbit.example,*.corp.example",
        management_tls_certificate="m.pem",
        management_tls_key="m.key",
    )


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_config(tmp_path, "port = 1\nring-size = 2048\nflush-interval = '1ms'\n")
    monkeypatch.setenv("AMQP_SERVER_PORT", "2")
    monkeypatch.setenv("AMQP_SERVER_RING_SIZE", "4096")

    config = start("--config", path, "--port", "3")

    assert (config.port, config.ring_size, config.flush_interval_seconds) == (3, 4096, 0.001)


@pytest.mark.parametrize(
    ("text", "watermark"),
    [("0.6", 0.6), ("60%", 0.6), ("12.5 %", 0.125), ("1", 1), ("100%", 1), ("2GiB", 2**31)],
)
def test_a_watermark_is_a_share_or_a_size(
    start: Start, tmp_path: Path, text: str, watermark: float
) -> None:
    assert start("--memory-watermark", text).memory_watermark == watermark
    path = write_config(tmp_path, f"memory-watermark = '{text}'")
    assert start("--config", path).memory_watermark == watermark


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("no", False)])
def test_a_switch_is_set_by_the_environment(
    start: Start, monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    monkeypatch.setenv("AMQP_SERVER_GUEST_FROM_ANYWHERE", value)

    assert start().guest_from_anywhere is expected


@pytest.mark.parametrize("value", [True, False])
def test_a_switch_is_set_by_the_file(start: Start, tmp_path: Path, value: bool) -> None:
    path = write_config(tmp_path, f"guest-from-anywhere = {str(value).lower()}")

    assert start("--config", path).guest_from_anywhere is value


def test_the_file_can_be_named_by_the_environment(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AMQP_SERVER_CONFIG", write_config(tmp_path, "port = 1234"))

    assert start().port == 1234


def test_an_empty_environment_variable_counts_as_absent(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_SERVER_PORT", "")

    assert start().port == 5672


def test_keys_of_the_file_are_written_with_hyphens_or_underscores(
    start: Start, tmp_path: Path
) -> None:
    text = "ring_bytes = '1MiB'\nring-bytes-total = 4194304\nmax_message_size = '2MiB'\n"

    config = start("--config", write_config(tmp_path, text))

    assert (config.ring_bytes, config.ring_bytes_total) == (2**20, 2**22)
    assert config.max_message_bytes == 2**21


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", "unknown key 'prot': did you mean 'port'?"),
        ("ring_byte = 1", "unknown key 'ring_byte': did you mean 'ring-bytes'?"),
        ("config = 'x'", "unknown key 'config'"),
        ("max-message-bytes = 1", "did you mean 'max-message-size'?"),
        ("[server]\nport = 1", "unknown key 'server'; known are "),
        ("zzz = 1", "unknown key 'zzz'; known are "),
        ("port = 'abc'", "port: 'abc' is not a valid integer"),
        ("port = true", "port: write text or a number, as in --port"),
        ("port = 70000", "port: 70000 is out of bounds: write 0 to 65535, for example 5672"),
        (
            "ring_size = 1000",
            "ring-size: 1000 is out of bounds: write a multiple of 1024 from 1024",
        ),
        ("flush-interval = 5", "flush-interval: '5' has no unit: write 5s, 5ms or 5m"),
        ("ring-bytes = '5zz'", "ring-bytes: '5zz' is not a size"),
        ("guest-from-anywhere = 'yes'", "guest-from-anywhere: write true or false"),
        ("present-version = '4'", "present-version: '4' is not a version of three numbers"),
        ("durability = 'fsnc'", "durability: 'fsnc' is not one of"),
        ("ring-size = 2048\nring_size = 2048", "ring-size is set twice, once as 'ring_size'"),
        ("[server]\nport = 1", "unknown key 'server'"),
        ("port = ", "not a TOML file: "),
    ],
)
def test_a_complaint_about_the_file_names_the_file_and_the_key(
    refuse: Refuse, tmp_path: Path, text: str, complaint: str
) -> None:
    path = write_config(tmp_path, text)

    said = refuse("--config", path)

    assert said.startswith(f"{path}: ")
    assert complaint in said


def test_a_wrong_value_in_the_file_is_refused_even_where_a_flag_wins(
    refuse: Refuse, tmp_path: Path
) -> None:
    path = write_config(tmp_path, "port = 'abc'")

    assert refuse("--config", path, "--port", "1") == f"{path}: port: 'abc' is not a valid integer."


def test_a_file_that_is_not_there_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "absent.toml"

    assert refuse("--config", str(path)) == f"{path}: No such file or directory"


def test_a_file_that_is_not_text_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_bytes(b"\xff\xfe")

    assert refuse("--config", str(path)).startswith(f"{path}: not a TOML file: ")


@pytest.mark.parametrize("value", ["abc", "70000", "-1"])
def test_a_complaint_about_the_environment_names_the_variable(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AMQP_SERVER_PORT", value)

    assert refuse().startswith("AMQP_SERVER_PORT: ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--port", "abc"], "--port: 'abc' is not a valid integer."),
        (["--port", "-1"], "--port: -1 is out of bounds: write 0 to 65535, for example 5672"),
        (["--host", " "], "--host: ' ' is empty: write 0.0.0.0 to listen everywhere"),
        (
            ["--flush-interval", "1h"],
            "--flush-interval: 1h is out of bounds: write 0 or 1ms to 10s",
        ),
        (["--flush-bytes", "1"], "--flush-bytes: 1 is out of bounds: write 4KiB to 16MiB, for"),
        (
            ["--ring-bytes", "1GiB"],
            "--ring-bytes: '1GiB' is more than ring-bytes-total, which is 256MiB",
        ),
        (
            ["--ring-bytes-total", "2MiB"],
            "--ring-bytes-total: '2MiB' is less than ring-bytes, which is 16MiB",
        ),
        (["--storage-path", __file__], "--storage-path: Directory "),
        (["--memory-watermark", "60"], "--memory-watermark: '60' is neither a share of the"),
        (
            ["--memory-watermark", "160%"],
            "--memory-watermark: '160%' is more than all memory: write 60%",
        ),
        (
            ["--memory-watermark", "2TiB"],
            "--memory-watermark: 2TiB is out of bounds: write 0 to 1TiB",
        ),
        (["--memory-watermark", "most"], "--memory-watermark: 'most' is not a size"),
        (["--disk-free-limit", "1"], "--disk-free-limit: 1 is out of bounds: write 0 or 1MiB to"),
        (["--disk-stall-limit", "0"], "--disk-stall-limit: 0 is out of bounds: write 1s to 1h"),
        (["--disk-stall-limit", "90ms"], "--disk-stall-limit: 90ms is out of bounds: write 1s to"),
        (["--on-disk-stall", "stop"], "--on-disk-stall: 'stop' is not one of 'alarm', 'exit'"),
        (["--present-product", " "], "--present-product: ' ' is not 1 to 100 characters"),
        (["--present-product", "x" * 101], f"--present-product: '{'x' * 101}' is not 1 to 100"),
        (["--present-version", "new"], "--present-version: 'new' is not a version of three"),
        (["--tls-port", "0"], "--tls-port: has no effect without --tls-certificate"),
        (["--tls-ca", "a"], "--tls-ca: has no effect without --tls-certificate"),
        (
            ["--tls-certificate", "a,b", "--tls-key", "c"],
            "--tls-key: 'c' is 1 files for 2 files of tls-certificate",
        ),
        (
            ["--tls-certificate", "a", "--tls-verify", "peer"],
            "--tls-verify: 'peer' is useless without tls-ca",
        ),
        (
            ["--tls-certificate", "a", "--tls-fail-if-no-peer-cert"],
            "--tls-fail-if-no-peer-cert: 'True' is for tls-verify peer only",
        ),
        (
            ["--tls-certificate", "a", "--tls-versions", "1.1"],
            "--tls-versions: '1.1' is not 1.2, 1.3 or 1.2,1.3",
        ),
        (
            ["--proxy-protocol-trusted", "::1,10.0.0.1/8"],
            "--proxy-protocol-trusted: '10.0.0.1/8' is not a network such as 10.0.0.0/8",
        ),
        (
            ["--management-tls-key", "m.key"],
            "--management-tls-key: 'm.key' is useless without management-tls-certificate",
        ),
        (
            ["--management-tls-verify", "peer", "--management-tls-certificate", "m"],
            "--management-tls-verify: 'peer' is useless without management-tls-ca",
        ),
        (
            ["--management-tls-fail-if-no-peer-cert"],
            "--management-tls-fail-if-no-peer-cert: 'True' is for management-tls-verify peer only",
        ),
        (
            ["--management-tls-certificate", "a,b", "--management-tls-key", "k"],
            "--management-tls-key: 'k' is 1 files for 2 files of management-tls-certificate",
        ),
        (["--management-port", "-2"], "--management-port: -2 is out of bounds: write -1 to 65535"),
        (["--log-level", "loud"], "--log-level: 'loud' is not one of"),
        (["--log-format", "xml"], "--log-format: 'xml' is not one of"),
    ],
)
def test_a_complaint_about_a_flag_names_the_flag_and_what_would_do(
    refuse: Refuse, arguments: list[str], complaint: str
) -> None:
    assert refuse(*arguments).startswith(complaint)


def test_every_numeric_setting_has_bounds_that_its_default_keeps() -> None:
    numeric = {
        name
        for name, value in ((name, getattr(ServerConfig(), name)) for name in FIELDS)
        if isinstance(value, int | float) and not isinstance(value, bool)
    }

    assert numeric == BOUNDS.keys()


def test_every_field_of_the_configuration_has_an_option() -> None:
    options = {p.name for p in command.params if isinstance(p, ServerOption)}
    # Two name files of settings, the other chooses another kind of data directory.
    options -= {"config", "ephemeral", "rabbitmq_conf"}
    # The password itself is no option: other users of a machine see the arguments of a process.
    options = options - {"default_pass_file"} | {"default_password"}

    assert options == FIELDS


# Which ports were not given is known from the options, and is none.
FIELDS = set(ServerConfig.__slots__) - {"limits", "optional_ports"}


def test_a_variable_that_is_no_setting_is_told_with_the_nearest_one() -> None:
    """A typing error was silence."""
    environment = {
        "AMQP_SERVER_STORAGE_PAHT": "/data",
        "AMQP_SERVER_PORT": "5672",
        "AMQP_SERVER_PURE_PYTHON": "1",
        "AMQP_SERVER_ZZZZ": "",
        "AMQP_SERVERS": "3",
    }
    with command.make_context("amqp-server", []) as ctx:
        assert unknown_variables(ctx, environment) == [
            "environment variable AMQP_SERVER_STORAGE_PAHT is no setting: "
            "did you mean AMQP_SERVER_STORAGE_PATH?",
            "environment variable AMQP_SERVER_ZZZZ is no setting: it is ignored",
        ]


LINKS = {
    "AMQP_SERVER_PORT": "tcp://10.96.0.7:5672",
    "AMQP_SERVER_PORT_5672_TCP": "tcp://10.96.0.7:5672",
    "AMQP_SERVER_PORT_5672_TCP_ADDR": "10.96.0.7",
    "AMQP_SERVER_PORT_5672_TCP_PORT": "5672",
    "AMQP_SERVER_PORT_5672_TCP_PROTO": "tcp",
    "AMQP_SERVER_METRICS_PORT": "tcp://10.96.0.8:15692",
    "AMQP_SERVER_METRICS_SERVICE_HOST": "10.96.0.8",
    "AMQP_SERVER_SERVICE_HOST": "10.96.0.7",
    "AMQP_SERVER_SERVICE_PORT": "5672",
    "AMQP_SERVER_SERVICE_PORT_AMQP": "5672",
    "AMQP_SERVER_TEAM_PORT": "tcp://10.96.0.9:5672",
}
"""What a pod of Kubernetes gets beside services `amqp-server` and `amqp-server-metrics`."""


def test_a_kubernetes_service_with_the_name_of_the_server_sets_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = start()
    for name, value in LINKS.items():
        monkeypatch.setenv(name, value)
    assert start() == without
    with command.make_context("amqp-server", []) as ctx:
        lines = unknown_variables(ctx, LINKS)
    assert [line.split()[2] for line in lines] == ["AMQP_SERVER_METRICS_PORT", "AMQP_SERVER_PORT"]
    assert all("Kubernetes service" in line for line in lines)


def test_other_wrong_ports_of_the_environment_are_refused(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_SERVER_PORT", "tcp:5672")
    assert "AMQP_SERVER_PORT: 'tcp:5672' is not a valid integer" in refuse()
