"""Several addresses to listen on: options, variable, RabbitMQ's file, and where they are shown."""

import json
import os
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from amqp_server.base.config import ConfigError, ServerConfig
from amqp_server.base.listen_addresses import (
    ADDRESSES_MAX,
    ListenAddress,
    hosts_of,
    parse_addresses,
)
from cli.exit_codes import EXIT_TRY_AGAIN
from cli.main import main
from cli.rabbitmq_tools.asking import Server
from tests.amqp_client import connect
from tests.cli.conftest import Refuse, Start
from tests.servers import NO_MANAGEMENT, RunningServer
from tests.tls.certificates import Authority


def _ports(server: RunningServer) -> list[tuple[str, int, str]]:
    asking = Server(str(server.storage_path), "node", 10)
    with closing(asking):
        found = asking.ask("probe")["listeners"]
    return [(each["host"], each["port"], each["protocol"]) for each in found]


@contextmanager
def _taken(host: str = "127.0.0.1") -> Iterator[int]:
    with socket.create_server((host, 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", [("127.0.0.1", None)]),
        (" 127.0.0.1 , ::1 ", [("127.0.0.1", None), ("::1", None)]),
        ("[::1]", [("::1", None)]),
        ("[::1]:5673,localhost:0", [("::1", 5673), ("localhost", 0)]),
        ("127.0.0.1:5672,127.0.0.1:5673", [("127.0.0.1", 5672), ("127.0.0.1", 5673)]),
        ("a:0,a:0", [("a", 0), ("a", 0)]),
        ("fe80::1%eth0", [("fe80::1%eth0", None)]),
    ],
)
def test_addresses_are_read(text: str, expected: list[tuple[str, int | None]]) -> None:
    assert parse_addresses(text) == tuple(ListenAddress(*each) for each in expected)
    assert hosts_of(text) == tuple(dict.fromkeys(host for host, _ in expected))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("127.0.0.1,", "empty"),
        (":5672", "empty"),
        ("127.0.0.1,127.0.0.1", "'127.0.0.1' twice"),
        ("[::1,127.0.0.1", "write [::1] or [::1]:5672"),
        ("[127.0.0.1]:5672", "is not an IPv6 address"),
        ("[::1]5672", "write [::1] or [::1]:5672"),
        ("2001:1:2:3:4:5:6:7:8:9", "write [::1]:5672"),
        ("127.0.0.1:", "has no port"),
        ("127.0.0.1:x", "has no port"),
        ("127.0.0.1:65536", "has no port"),
        ("127.0.0.1:٣", "has no port"),
        (",".join(f"h{number}" for number in range(ADDRESSES_MAX + 1)), "more than 64"),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_addresses(text)
    assert reason in str(refused.value)
    with pytest.raises(ConfigError):
        ServerConfig(host=text)


def test_the_same_address_by_port_and_by_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="the same address and port twice"):
        ServerConfig(host="127.0.0.1,127.0.0.1:5672")
    with pytest.raises(ConfigError, match="management-port"):
        ServerConfig(management_host="127.0.0.1:15672")
    for bad in ("rabbit:15672", "http://rabbit", "a..b", "*a", "a.*", "[::1]", "a/b", "é"):
        with pytest.raises(ConfigError, match="management_hosts"):
            ServerConfig(management_hosts=f"good.example,{bad}")
    assert ServerConfig(management_hosts="*, *.a-b.example,x.").management_hosts
    assert ServerConfig(host="127.0.0.1:0,127.0.0.1:0").plain_addresses == (("127.0.0.1", 0),) * 2


def test_hosts_of_tls_and_of_the_management_are_those_of_the_server() -> None:
    config = ServerConfig(host="127.0.0.1:5673,[::1]:5674", tls_certificate="c", tls_port=5)
    assert config.plain_addresses == (("127.0.0.1", 5673), ("::1", 5674))
    assert config.tls_addresses == (("127.0.0.1", 5), ("::1", 5))
    assert config.management_addresses == ("127.0.0.1", "::1")
    apart = ServerConfig(tls_host="::1,127.0.0.2:7", tls_certificate="c", tls_port=5)
    assert apart.tls_addresses == (("::1", 5), ("127.0.0.2", 7))
    assert ServerConfig(tls_only=True, tls_certificate="c").plain_addresses == ()


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--host", "127.0.0.1,127.0.0.2:0"), {}),
        (("--host", "127.0.0.1", "--host", "127.0.0.2:0"), {}),
        ((), {"AMQP_SERVER_HOST": "127.0.0.1,127.0.0.2:0"}),
    ],
)
def test_clients_connect_to_every_address(
    tmp_path: Path, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    environment = {**NO_MANAGEMENT, **variables}
    with RunningServer(tmp_path / "d", *options, environment=environment).start() as server:
        found = _ports(server)
        assert [(host, protocol) for host, _, protocol in found] == [
            ("127.0.0.1", "amqp"),
            ("127.0.0.2", "amqp"),
        ]
        for host, port, _ in found:
            with connect((host, port)) as client:
                client.open_channel()
        second = f"listening on 127.0.0.2:{found[1][1]}"
        assert second in [line.strip() for line in server.messages]


def test_every_address_has_tls_api_and_metrics(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    options = (
        *authority.server_pair().options,
        *("--host", "127.0.0.1,127.0.0.2", "--tls-host", "127.0.0.1:0,127.0.0.3"),
        *("--management-port", "-1", "--metrics-port", "-1", "--management-tls-port", "0"),
    )
    with RunningServer(tmp_path / "d", *options).start() as server:
        server.wait_for_message("management server started")
        found = _ports(server)
        by_protocol: dict[str, list[str]] = {}
        for host, _, protocol in found:
            by_protocol.setdefault(protocol, []).append(host)
        assert by_protocol == {
            "amqp": ["127.0.0.1", "127.0.0.2"],
            "amqp/ssl": ["127.0.0.1", "127.0.0.3"],
            "http": ["127.0.0.1", "127.0.0.2"],
            "http/prometheus": ["127.0.0.1", "127.0.0.2"],
        }
        context = ssl.create_default_context(cafile=str(authority.path))
        context.check_hostname = False
        for host, port, protocol in found:
            if protocol == "amqp/ssl":
                with socket.create_connection((host, port)) as plain:
                    context.wrap_socket(plain).close()
            elif protocol == "http":
                request = urllib.request.Request(
                    f"http://{host}:{port}/api/overview",
                    headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="},
                )
                with urllib.request.urlopen(request) as answer:
                    shown = json.load(answer)["listeners"]
                assert {(each["ip_address"], each["port"]) for each in shown} == {
                    (each[0], each[1]) for each in found
                }
            elif protocol == "http/prometheus":
                urllib.request.urlopen(f"http://{host}:{port}/metrics").close()


def test_one_address_that_cannot_be_had_stops_the_start(tmp_path: Path) -> None:
    with _taken() as port:
        for host, reason in (
            (f"127.0.0.1:{port}", f"127.0.0.1:{port}: Address already in use"),
            ("[2001:db8::1]:5672", "[2001:db8::1]:5672: Cannot assign requested address"),
            ("192.0.2.77:5672", "192.0.2.77:5672: Cannot assign requested address"),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "amqp_server", "--host", f"127.0.0.2:0,{host}"],
                env={
                    **os.environ,
                    "AMQP_SERVER_STORAGE_PATH": str(tmp_path / "d"),
                    **NO_MANAGEMENT,
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stdout) == (EXIT_TRY_AGAIN, "")
            assert done.stderr.endswith(f"cannot listen on {reason}\n")
            # It never touched the data directory.
            assert not (tmp_path / "d").exists()


def test_a_port_that_no_address_uses_is_a_mistake(refuse: Refuse) -> None:
    reason = refuse("--host", "127.0.0.1:5672", "--port", "5673")
    assert "--port: has no effect: every address of --host names its port" in reason


def test_an_address_with_its_port_wins_over_a_port_of_a_weaker_source(
    start: Start, refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "rabbitmq.conf"
    conf.write_text("listeners.tcp.default = 5673\n")
    ours = tmp_path / "server.toml"
    ours.write_text("port = 5674\n")
    host = ("--host", "127.0.0.2:7000")
    for files in (("--rabbitmq-conf", str(conf)), ("--config", str(ours))):
        assert start(*host, *files).plain_addresses == (("127.0.0.2", 7000),)
    monkeypatch.setenv("AMQP_SERVER_PORT", "5675")
    assert start(*host).plain_addresses == (("127.0.0.2", 7000),)
    # The other way round the port has been asked for, and nothing listens there.
    ours.write_text("host = '127.0.0.2:7000'\n")
    assert "AMQP_SERVER_PORT: has no effect" in refuse("--config", str(ours))


@pytest.mark.parametrize(
    ("text", "plain", "tls"),
    [
        (
            "listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = ::1:5673",
            [("127.0.0.1", 5673), ("::1", 5673)],
            [],
        ),
        (
            "listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = [::1]:5674",
            [("127.0.0.1", 5673), ("::1", 5674)],
            [],
        ),
        (
            "listeners.tcp.1 = 5673\nlisteners.tcp.2 = 5674",
            [("0.0.0.0", 5673), ("0.0.0.0", 5674)],
            [],
        ),
        (
            "listeners.tcp.1 = 127.0.0.1:5673\nlisteners.ssl.1 = 10.0.0.1:5671\n"
            "listeners.ssl.2 = 10.0.0.2:5671",
            [("127.0.0.1", 5673)],
            [("10.0.0.1", 5671), ("10.0.0.2", 5671)],
        ),
        (
            "listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:5671\nlisteners.ssl.2 = ::1:5672",
            [],
            [("127.0.0.1", 5671), ("::1", 5672)],
        ),
        ("listeners.ssl.default = 5671", [("0.0.0.0", 5672)], [("0.0.0.0", 5671)]),
    ],
)
def test_listeners_of_rabbitmq_conf_are_addresses(
    start: Start,
    tmp_path: Path,
    text: str,
    plain: list[tuple[str, int]],
    tls: list[tuple[str, int]],
) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text(f"{text}\nssl_options.certfile = c.pem\n")
    config = start("--rabbitmq-conf", str(path))
    assert list(config.plain_addresses) == plain
    assert list(config.tls_addresses) == tls


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "listeners.tcp.1 = 127.0.0.1:5672\nlisteners.tcp.2 = 127.0.0.1:5672",
            "rabbitmq.conf:2: listeners.tcp.2: the same address and port as listeners.tcp.1",
        ),
        ("listeners.tcp.1 = localhost:5672", "'localhost' is not an IP address"),
        ("listeners.tcp.1 = 127.0.0.1", "listeners.tcp.1"),
        ("listeners.tcp = none", "would not listen at all"),
    ],
)
def test_a_mistake_of_a_listener_has_its_line(
    refuse: Refuse, tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text(f"{text}\n")
    assert reason in refuse("--rabbitmq-conf", str(path))


def test_config_show_has_all_addresses_with_their_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = ::1:5674\n")
    assert main(["config", "show", "--changed", "--rabbitmq-conf", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["host", "127.0.0.1:5673,[::1]:5674", f"{path}:1:", "listeners.tcp.1"] in lines
