"""The files of `deploy/` name options, variables, ports and files that exist, and fit together."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pika
import pytest
import yaml

from amqp_server.base.config import ServerConfig
from cli.exit_codes import (
    EXIT_CORRUPT,
    EXIT_DATA_LOSS,
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    EXIT_TRY_AGAIN,
)
from cli.main import command
from cli.settings import ENVIRONMENT_PREFIX, ServerOption
from tests.docs.code_blocks import REPOSITORY
from tests.docs.test_commands import unknown_words
from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementOptions, ManagementServer
from tests.servers import NO_MANAGEMENT, RunningServer

DEPLOY = REPOSITORY / "deploy"
OPTIONS = {param.key: param for param in command.params if isinstance(param, ServerOption)}
VARIABLES = {option.variable for option in OPTIONS.values()} | {
    f"{ENVIRONMENT_PREFIX}REQUIRE_COMPILED",
    "RABBITMQ_DEFAULT_USER",
    "RABBITMQ_DEFAULT_PASS",
    "RABBITMQ_DEFAULT_VHOST",
}
FOREIGN = {
    *("RABBITMQ_USERNAME", "RABBITMQ_PASSWORD", "RABBITMQ_PASSWORD_FILE", "RABBITMQ_VHOST"),
    *("RABBITMQ_NODE_PORT_NUMBER", "RABBITMQ_MANAGEMENT_PORT_NUMBER"),
    *("RABBITMQ_LOAD_DEFINITIONS", "RABBITMQ_DEFINITIONS_FILE"),
}
"""Of the images of RabbitMQ and of Bitnami; ours takes them."""
CHART = DEPLOY / "kubernetes" / "amqp-server"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def default_port(option: str) -> int:
    return int(str(OPTIONS[option].default))


PORTS = {
    "amqp": default_port("port"),
    "amqps": default_port("tls-port"),
    "management": default_port("management-port"),
    "metrics": default_port("metrics-port"),
}


UNITS = [
    "amqp-server.service",
    "amqp-server-backup.service",
    "amqp-server-backup.timer",
    "amqp-server-export.service",
]


def unit_settings(name: str = "amqp-server.service") -> dict[str, list[str]]:
    """Return the values of each setting of a unit."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with its text on one line."""
    text = (DEPLOY / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines() if line]


def manifests() -> dict[str, dict[str, Any]]:
    """Return the objects of the Kubernetes manifest by kind."""
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    return {each["kind"]: each for each in found}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_variables_in_a_file_exist(path: Path) -> None:
    names = set(re.findall(r"\b((?:AMQP_SERVER|RABBITMQ)_[A-Z_]+)", path.read_text()))
    assert names <= (VARIABLES | FOREIGN if path.name == "container-start" else VARIABLES)


def test_the_unit_starts_the_server_as_the_service_manager_expects() -> None:
    settings = unit_settings()

    assert settings["Type"] == ["notify"]
    (start,) = settings["ExecStart"]
    program, *options = shlex.split(start)
    assert Path(program).name == "amqp-server"
    assert unknown_words(shlex.join(["amqp-server", *options])) == []
    assert settings["RestartPreventExitStatus"] == [str(EXIT_REFUSED)]
    assert str(EXIT_TRY_AGAIN) not in settings["RestartPreventExitStatus"]
    (variable,) = settings["Environment"]
    assert variable == f"AMQP_SERVER_STORAGE_PATH=/var/lib/{settings['StateDirectory'][0]}"


def test_the_unit_of_back_ups_runs_the_command_as_the_servers_user() -> None:
    settings, server = unit_settings("amqp-server-backup.service"), unit_settings()

    assert settings["Type"] == ["oneshot"]
    for name in ("User", "Group", "Environment", "UMask"):
        assert settings[name] == server[name]
    (start,) = settings["ExecStart"]
    words = shlex.split(start)
    assert words[0] == shlex.split(server["ExecStart"][0])[0]
    assert unknown_words(shlex.join(["amqp-server", *words[1:]])) == []
    # It may write there and nowhere else.
    assert settings["ReadWritePaths"] == [words[words.index("--into") + 1]]
    assert settings["ProtectSystem"] == ["strict"]
    # The end of a back-up must not take away what the server shares with its processes.
    assert settings["RemoveIPC"] == ["no"]


def test_the_unit_of_exports_runs_the_command_as_the_servers_user() -> None:
    settings, server = unit_settings("amqp-server-export.service"), unit_settings()

    assert settings["Type"] == ["notify"]
    for name in ("User", "Group", "Environment"):
        assert settings[name] == server[name]
    (start,) = settings["ExecStart"]
    words = shlex.split(start)
    assert words[0] == shlex.split(server["ExecStart"][0])[0]
    assert unknown_words(shlex.join(["amqp-server", *words[1:]])) == []
    assert "--every" in words
    # It may write there and to the output.
    (data,) = settings["ReadWritePaths"]
    assert settings["Environment"] == [f"AMQP_SERVER_STORAGE_PATH={data}"]
    assert words[words.index("--out") + 1] == f"/var/lib/{settings['StateDirectory'][0]}"
    assert settings["ProtectSystem"] == ["strict"]
    assert settings["RemoveIPC"] == ["no"]
    # What another start cannot mend is for people; what it can is not.
    lasting = {EXIT_REFUSED, EXIT_DATA_LOSS, EXIT_CORRUPT}
    assert settings["RestartPreventExitStatus"] == [" ".join(map(str, sorted(lasting)))]
    assert settings["SuccessExitStatus"] == [str(EXIT_INTERRUPTED)]
    # Java writes the code that it runs.
    assert "MemoryDenyWriteExecute" not in settings


def test_the_timer_makes_up_for_a_back_up_that_was_missed() -> None:
    settings = unit_settings("amqp-server-backup.timer")
    assert settings["Persistent"] == ["true"]
    assert settings["WantedBy"] == ["timers.target"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    # The program and the user of the units are not on this machine.
    program = Path(sys.executable).with_name("amqp-server")
    for each in UNITS:
        text = (DEPLOY / each).read_text()
        text = text.replace("/opt/amqp-server/bin/amqp-server", str(program))
        text = re.sub(r"^(User|Group)=.*\n", "", text, flags=re.MULTILINE)
        (tmp_path / each).write_text(text)
    unit = tmp_path / name

    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    complaints = [line for line in ended.stderr.splitlines() if "amqp-server" in line]
    assert (ended.returncode, complaints) == (0, [])


def test_the_image_is_not_root_and_has_the_servers_ports_and_directory() -> None:
    found = instructions()
    last_stage = found[max(n for n, (name, _) in enumerate(found) if name == "FROM") :]
    values = dict(last_stage)

    user, _, group = values["USER"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert f"--uid {user}" in values["RUN"]
    assert sorted(map(int, values["EXPOSE"].split())) == sorted(PORTS.values())
    environment = dict(word.split("=", 1) for word in shlex.split(values["ENV"]))
    assert environment["AMQP_SERVER_STORAGE_PATH"] == values["VOLUME"]
    assert environment["AMQP_SERVER_HOST"] == "0.0.0.0"
    assert unknown_words(shlex.join(health_check())) == []


def health_check() -> list[str]:
    """Return the command with which Docker asks a container for its health."""
    words: list[str] = json.loads(dict(instructions())["HEALTHCHECK"].partition(" CMD ")[2])
    return words


def test_the_checks_of_health_tell_a_server_from_none(tmp_path: Path) -> None:
    (container,) = manifests()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    command = container["startupProbe"]["exec"]["command"]
    asked = container["livenessProbe"]["httpGet"]
    assert asked["port"] in {each["name"] for each in container["ports"]}
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AMQP_SERVER_STORAGE_PATH": str(tmp_path / "data"),
    }

    def codes() -> list[int]:
        return [
            subprocess.run(words, env=environment, capture_output=True, check=False).returncode
            for words in (command, health_check())
        ]

    with RunningServer(tmp_path / "data", *ManagementOptions).start() as server:
        assert codes() == [0, 0]
        # The port that the readiness asks for.
        socket.create_connection(server.address).close()
        reply = ManagementServer(server).request("GET", asked["path"], user=None)
        assert (reply.status, reply.json) == (200, {"status": "ok"})
    assert codes() == [EXIT_REFUSED] * 2


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_systemd_rates_the_unit_as_well_protected(name: str) -> None:
    unit = str(DEPLOY / name)
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=15", unit],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout.splitlines()[-1:] + rated.stderr.splitlines()


def test_the_image_copies_wheels_and_files_that_exist_and_gets_nothing_else() -> None:
    copied = set()
    for name, text in instructions():
        if name == "COPY" and "--from" not in text:
            copied |= {word for word in text.split()[:-1] if not word.startswith("--")}
    everything, *kept = [
        line
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert everything == "*"
    assert {line.removeprefix("!") for line in kept} == copied
    assert all((REPOSITORY / name).is_file() for name in copied - {"dist/*.whl"})


def test_the_compose_file_is_one_broker_with_a_user_and_a_volume() -> None:
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (service,) = document["services"].values()

    assert (DEPLOY / service["build"]["context"]).resolve() == REPOSITORY
    assert (REPOSITORY / service["build"]["dockerfile"]).is_file()
    assert all(":?" in value for value in service["environment"].values())
    volume, _, directory = service["volumes"][0].partition(":")
    assert volume in document["volumes"]
    assert ("VOLUME", directory) in instructions()
    published = {int(port.rsplit(":", 1)[1]) for port in service["ports"]}
    assert published == set(PORTS.values()) - {PORTS["amqps"]}


def test_the_manifest_of_kubernetes_fits_together() -> None:
    found = manifests()
    stateful, service = found["StatefulSet"]["spec"], found["Service"]
    (container,) = stateful["template"]["spec"]["containers"]

    assert stateful["replicas"] == 1
    assert stateful["serviceName"] == service["metadata"]["name"]
    labels = stateful["template"]["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {name: PORTS[name] for name in ports}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == ports.keys()
    claims = {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (claim,) = claims
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment["AMQP_SERVER_STORAGE_PATH"].startswith(mounts[claim] + "/")
    assert environment["AMQP_SERVER_ON_DISK_STALL"] == "exit"
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        selector = found[kind]["spec"].get("selector") or found[kind]["spec"]["podSelector"]
        assert selector["matchLabels"] == labels
    rules = found["NetworkPolicy"]["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == ports.keys()
    account = found["ServiceAccount"]["metadata"]["name"]
    assert stateful["template"]["spec"]["serviceAccountName"] == account


def test_the_service_sets_no_variable_of_the_server() -> None:
    """Kubernetes tells each pod the addresses of services, in variables with their names."""
    service = manifests()["Service"]["metadata"]["name"].upper().replace("-", "_")
    assert f"{service}_PORT" in VARIABLES
    assert manifests()["StatefulSet"]["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_the_probes_of_kubernetes_are_commands_and_ports() -> None:
    (container,) = manifests()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    names = {port["name"] for port in container["ports"]}

    assert unknown_words(shlex.join(container["startupProbe"]["exec"]["command"])) == []
    assert container["livenessProbe"]["httpGet"]["port"] in names
    assert container["readinessProbe"]["tcpSocket"]["port"] in names
    user = manifests()["StatefulSet"]["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert ("USER", f"{user}:{user}") in instructions()


def chart_file(name: str) -> Any:  # noqa: ANN401 - of YAML
    return yaml.safe_load((CHART / name).read_text())


def test_the_chart_has_the_version_of_the_server() -> None:
    chart = chart_file("Chart.yaml")
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)
    (container,) = manifests()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f":{version}")


def test_each_value_of_the_chart_has_a_default_and_a_type() -> None:
    def names(node: dict[str, Any], above: str = "") -> set[str]:
        found: set[str] = set()
        for name, below in node["properties"].items():
            found |= names(below, f"{above}{name}.") if "properties" in below else {above + name}
        return found

    def has(name: str) -> bool:
        node = values
        for part in name.split("."):
            if part not in node:
                return False
            node = node[part]
        return True

    values = chart_file("values.yaml")
    known = names(chart_file("values.schema.json"))
    assert [name for name in sorted(known) if not has(name)] == []

    def check(node: dict[str, Any], above: str = "") -> None:
        for name, value in node.items():
            path = above + name
            if path not in known:
                check(value, f"{path}.")

    check(values)


def test_the_settings_of_the_chart_are_those_of_the_server() -> None:
    settings = chart_file("values.schema.json")["properties"]["settings"]
    assert settings["propertyNames"]["enum"] == sorted(OPTIONS)
    text = (CHART / "templates" / "_names.tpl").read_text()
    own = yaml.safe_load(text.partition('"amqp-server.ownSettings" -}}')[2].partition("{{-")[0])
    assert set(own) <= OPTIONS.keys()
    template = (CHART / "templates" / "statefulset.yaml").read_text()
    set_here = set(re.findall(r"- name: AMQP_SERVER_([A-Z_]+)", template))
    assert {name.lower().replace("_", "-") for name in set_here} <= set(own)


def start_container(tmp_path: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run the first process of the container with the real command; it ends by itself."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AMQP_SERVER_STORAGE_PATH": str(tmp_path / "data"),
        **variables,
    }
    ended = subprocess.run(
        [str(DEPLOY / "container-start"), *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_container_with_a_new_directory_needs_a_user(tmp_path: Path) -> None:
    code, _, error = start_container(tmp_path)

    assert code == 2
    assert "set RABBITMQ_DEFAULT_USER and RABBITMQ_DEFAULT_PASS" in error
    assert not (tmp_path / "data").exists()


def test_a_container_with_a_user_is_the_server(tmp_path: Path) -> None:
    # A wrong port: it is the server that complains.
    code, _, error = start_container(
        tmp_path, RABBITMQ_DEFAULT_USER="ops", RABBITMQ_DEFAULT_PASS="x", AMQP_SERVER_PORT="-1"
    )
    assert (code, error.partition(" is ")[0]) == (2, "amqp-server: error: AMQP_SERVER_PORT: -1")
    assert "--port: -1" in start_container(tmp_path, "--port", "-1")[2]


def shown(tmp_path: Path, **variables: str) -> dict[str, str]:
    """Return what settings a server gets from the variables of a container."""
    program = tmp_path / "amqp-server"
    program.write_text("#!/bin/sh\nexec env\n")
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    code, output, error = start_container(tmp_path, PATH=path, **variables)
    assert (code, error) == (0, "")
    lines = (line.partition("=") for line in output.splitlines())
    found = {name: value for name, _, value in lines}
    return {name: value for name, value in found.items() if name in VARIABLES - variables.keys()}


def secret(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_a_container_takes_the_variables_of_rabbitmqs_image_and_of_bitnamis(tmp_path: Path) -> None:
    given = {"AMQP_SERVER_STORAGE_PATH": str(tmp_path / "data")}
    password = secret(tmp_path, "password", "hidden\n")

    bitnami = shown(
        tmp_path,
        **given,
        RABBITMQ_USERNAME="ops",
        RABBITMQ_PASSWORD="x y",
        RABBITMQ_VHOST="shop",
        RABBITMQ_NODE_PORT_NUMBER="5673",
        RABBITMQ_MANAGEMENT_PORT_NUMBER="15673",
        RABBITMQ_LOAD_DEFINITIONS="yes",
        RABBITMQ_DEFINITIONS_FILE="/app/d.json",
    )
    assert bitnami == {
        "RABBITMQ_DEFAULT_USER": "ops",
        "RABBITMQ_DEFAULT_PASS": "x y",
        "RABBITMQ_DEFAULT_VHOST": "shop",
        "AMQP_SERVER_PORT": "5673",
        "AMQP_SERVER_MANAGEMENT_PORT": "15673",
        "AMQP_SERVER_LOAD_DEFINITIONS": "/app/d.json",
    }
    files = shown(
        tmp_path,
        **given,
        RABBITMQ_DEFAULT_USER_FILE=secret(tmp_path, "user", "ops\n"),
        RABBITMQ_DEFAULT_PASS_FILE=password,
        RABBITMQ_DEFAULT_VHOST_FILE=secret(tmp_path, "vhost", "shop"),
    )
    assert files == {
        "RABBITMQ_DEFAULT_USER": "ops",
        "RABBITMQ_DEFAULT_VHOST": "shop",
        # The password stays where it is.
        "AMQP_SERVER_DEFAULT_PASS_FILE": password,
    }
    assert shown(tmp_path, **given, RABBITMQ_PASSWORD_FILE=password) == {
        "RABBITMQ_DEFAULT_USER": "user",
        "AMQP_SERVER_DEFAULT_PASS_FILE": password,
    }
    # RabbitMQ's own name wins, and definitions are asked for by their own variable.
    both = {"RABBITMQ_DEFAULT_USER": "a", "RABBITMQ_USERNAME": "b", "RABBITMQ_DEFAULT_PASS": "c"}
    assert shown(tmp_path, **given, **both, RABBITMQ_DEFINITIONS_FILE="/app/d.json") == {}


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        (
            {"RABBITMQ_PASSWORD": "a", "RABBITMQ_PASSWORD_FILE": "/b"},
            "RABBITMQ_PASSWORD and RABBITMQ_PASSWORD_FILE are both set",
        ),
        (
            {"RABBITMQ_DEFAULT_PASS_FILE": "/missing"},
            "RABBITMQ_DEFAULT_PASS_FILE: /missing cannot be read",
        ),
        ({"RABBITMQ_VHOST_FILE": "/missing"}, "RABBITMQ_VHOST_FILE: /missing cannot be read"),
    ],
)
def test_a_container_refuses_variables_that_contradict_each_other(
    variables: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    code, _, error = start_container(tmp_path, **variables)

    assert (code, error) == (2, f"amqp-server: error: {complaint}\n")


def test_a_user_whose_password_is_in_a_file_logs_in(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    variables = {
        "AMQP_SERVER_STORAGE_PATH": str(storage),
        "RABBITMQ_USERNAME": "shop",
        "RABBITMQ_PASSWORD_FILE": secret(tmp_path, "password", "hidden\n"),
        "RABBITMQ_VHOST": "orders",
    }
    taken = shown(tmp_path, **variables)
    with RunningServer(storage, environment=taken).start() as server:
        url = f"amqp://shop:hidden@{server.host}:{server.port}/orders"
        with pika.BlockingConnection(pika.URLParameters(url)) as client:
            client.channel().queue_declare("q")


def test_a_container_with_a_command_is_that_command(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data").start() as server:
        code, output, _ = start_container(tmp_path, "status")
        assert code == 0
        assert f"process {server.pid}" in output
    assert start_container(tmp_path, "status")[0] == EXIT_REFUSED


def test_a_container_with_data_needs_no_user(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data").start():
        code, _, error = start_container(tmp_path, AMQP_SERVER_PORT="0", **NO_MANAGEMENT)
    # It goes on to the server, which finds the directory in use.
    assert code == EXIT_TRY_AGAIN
    assert "in use" in error


def test_the_ports_are_those_of_the_server() -> None:
    assert PORTS["amqp"] == ServerConfig().port
