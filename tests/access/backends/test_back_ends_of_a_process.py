"""A server process with back ends: what it imports, how it starts, and who may ask by HTTP."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from amqp_server.access.backends.loading import load_backends
from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from tests.access.backends.auth_server import AuthServer
from tests.access.backends.tokens import EVERYTHING, RESOURCE, Issuer
from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

LIBRARIES = ("aiohttp", "jwt", "cryptography")


def options(settings: dict[str, object]) -> list[str]:
    """Return fields of `ServerConfig` as options of the command line."""
    return [
        part
        for name, value in settings.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]


def imported(server: RunningServer) -> set[str]:
    """Return which of the libraries the process has loaded, by the files that it maps."""
    maps = Path(f"/proc/{server.pid}/maps").read_text()
    return {name for name in LIBRARIES if f"/{name}/" in maps}


def test_without_back_ends_a_server_loads_no_library_for_them(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", is_fork=False) as server:
        server.start()
        connect(server.address).close()
        assert not imported(server)


def test_with_back_ends_it_does(tmp_path: Path) -> None:
    keys = Issuer().write_key(tmp_path)
    with AuthServer() as auth:
        settings = {
            **auth.settings,
            "auth_backends": "internal,http,oauth2",
            "auth_oauth2_resource_server_id": RESOURCE,
            "auth_oauth2_signing_keys": keys,
        }
        with RunningServer(tmp_path / "data", *options(settings), is_fork=False) as server:
            server.start()
            assert imported(server) >= {"aiohttp", "cryptography"}
            connect(server.address, user="alice", password="x").close()
            assert server.terminate() == 0


def test_without_the_extra_the_start_names_the_command_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("amqp_server.access.backends.oa")]:
        monkeypatch.delitem(sys.modules, name)
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, "jwt", None)
    config = ServerConfig(
        auth_backends="oauth2",
        auth_oauth2_resource_server_id=RESOURCE,
        auth_oauth2_signing_keys=Issuer().write_key(tmp_path),
    )
    with pytest.raises(StartupError, match=r"\(jwt\): pip install 'amqp-server\[oauth2\]'"):
        load_backends(config)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"auth_backends": "http"}, "--auth-http-user-path: '' is missing: the back end http"),
        ({"auth_backends": "oauth2"}, "--auth-oauth2-resource-server-id: '' is missing"),
        (
            {"auth_backends": "oauth2", "auth_oauth2_resource_server_id": "x"},
            "--auth-oauth2-jwks-uri: '' is missing: tokens need signing keys",
        ),
        ({"auth_backends": "internal,internal"}, "not a list of different names"),
        ({"auth_backends": "ldap"}, "there is no back end 'ldap': known are internal, http"),
        ({"auth_timeout": "1m"}, "--auth-timeout: 1m is out of bounds"),
    ],
)
def test_a_setting_that_cannot_be_used_stops_the_start(
    tmp_path: Path, settings: dict[str, object], text: str
) -> None:
    with RunningServer(tmp_path / "data", *options(settings)) as server:
        server.begin()
        assert server.wait() != 0
        assert text in "".join(server.messages)
        assert not (tmp_path / "data" / "metadata").exists()


def request(url: str, authorization: str, body: object = None, method: str = "GET") -> Any:  # noqa: ANN401
    octets = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, octets, {"authorization": authorization}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=HANG_SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def test_users_of_back_ends_ask_by_http(tmp_path: Path) -> None:
    issuer = Issuer()

    def answers(path: str, fields: dict[str, str]) -> str:
        if path == "/user":
            return "allow management" if fields.get("password") == "secret" else "deny"
        return "deny" if fields.get("name") == "no" else "allow"

    with AuthServer(answers) as auth:
        settings = {
            **auth.settings,
            "auth_backends": "internal,oauth2,http",
            "auth_oauth2_resource_server_id": RESOURCE,
            "auth_oauth2_signing_keys": issuer.write_key(tmp_path),
        }
        environment = {"AMQP_SERVER_MANAGEMENT_PORT": "-1"}
        arguments = options(settings)
        with RunningServer(tmp_path / "data", *arguments, environment=environment) as server:
            server.start()
            line = server.wait_for_message("management server started")
            found = re.search(r"urls='(http://[0-9.:]+)", line)
            assert found is not None
            api = f"{found[1]}/api"
            basic = "Basic " + b64encode(b"alice:secret").decode()
            assert request(f"{api}/whoami", basic) == {"name": "alice", "tags": ["management"]}
            assert [each["name"] for each in request(f"{api}/vhosts", basic)] == ["/"]
            queue = {"durable": True}
            assert request(f"{api}/queues/%2F/yes", basic, queue, "PUT") is None
            status, error = request(f"{api}/queues/%2F/no", basic, queue, "PUT")
            assert (status, error["reason"]) == (401, "Access refused.")
            message = {
                "properties": {"headers": {"CC": ["yes"]}},
                "routing_key": "yes",
                "payload": "x",
                "payload_encoding": "string",
            }
            published = request(f"{api}/exchanges/%2F/amq.default/publish", basic, message, "POST")
            assert published == {"routed": True}
            wrong = "Basic " + b64encode(b"alice:wrong").decode()
            assert request(f"{api}/whoami", wrong)[0] == 401

            token = issuer.token(sub="bob", scope=[*EVERYTHING, "rabbitmq.tag:monitoring"])
            bearer = f"Bearer {token}"
            assert request(f"{api}/whoami", bearer) == {"name": "bob", "tags": ["monitoring"]}
            assert [each["name"] for each in request(f"{api}/queues", bearer)] == ["yes"]
            assert request(f"{api}/whoami", f"Bearer {issuer.token(seconds=-1)}")[0] == 401
            assert request(f"{api}/whoami", "Bearer ")[0] == 401
