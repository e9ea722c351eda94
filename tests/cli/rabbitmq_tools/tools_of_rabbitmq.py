"""RabbitMQ 3.10's own tools write what `recorded.txt` says: `make check-tools` runs this."""

import os
from pathlib import Path
from typing import Final

import pytest

from bench.rabbitmq import CONTROL_COMMAND, start_rabbitmq
from tests.cli.rabbitmq_tools.conversation import Exchange, run, told

TOOLS_OF_RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin")
_EXPORT = "export "


@pytest.mark.timeout(900)
def test_rabbitmq_writes_what_is_recorded(tmp_path: Path) -> None:
    plugins = ("rabbitmq_event_exchange", "rabbitmq_management")
    with start_rabbitmq("RabbitMQ", tmp_path, plugins=plugins) as broker:
        environment, node = environment_of(tmp_path / CONTROL_COMMAND)

        def say(words: tuple[str, ...]) -> Exchange:
            return run(words, TOOLS_OF_RABBITMQ, node, environment)

        with told(broker.url.port, say) as differing:
            assert differing == []


def environment_of(script: Path) -> tuple[dict[str, str], str]:
    """Return the variables with which RabbitMQ's tools find the node, and its name."""
    lines = script.read_text().splitlines()
    pairs = [line.removeprefix(_EXPORT).partition("=") for line in lines if _EXPORT in line]
    node = lines[-1].split("--node ")[1].split()[0]
    plugins = str(script.with_name("enabled_plugins"))
    more = {"RABBITMQ_NODENAME": node, "RABBITMQ_ENABLED_PLUGINS_FILE": plugins}
    return {**os.environ, **{name: value for name, _, value in pairs}, **more}, node
