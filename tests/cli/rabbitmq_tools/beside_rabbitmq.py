"""Every verb of RabbitMQ's tools beside ours: `make check-tools` runs this.

RabbitMQ 3.10 itself says which verbs there are. Both are told the same, and write the same on both
streams and end with the same exit code, but for the differences that are listed with their reasons.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pika
import pytest

from bench.rabbitmq import CONTROL_COMMAND, free_ports, start_rabbitmq
from cli.main import main
from cli.rabbitmq_tools.verbs import TOOLS, VERBS
from tests.cli.rabbitmq_tools.conversation import Exchange, run
from tests.cli.rabbitmq_tools.differences import (
    DIFFERENT,
    DIFFERENT_LISTS,
    DIFFERENT_USAGES,
    NOT_TOLD_WRONG,
    SAMPLES,
)
from tests.cli.rabbitmq_tools.test_conversation import NODE
from tests.cli.rabbitmq_tools.tools_of_rabbitmq import TOOLS_OF_RABBITMQ, environment_of
from tests.servers import RunningServer

_VERB: Final = re.compile(r"^   ([a-z_]+) {2,}\S?", re.MULTILINE)
_LINE_OF_USAGE: Final = re.compile(r"^rabbitmq\S* \[--node.*$", re.MULTILINE)
_WORKERS: Final = 2
"""Each process of RabbitMQ's tools takes a core for half a second."""
_FORMATS: Final = ("table", "json", "csv", "pretty_table")
_WAYS: Final = (("-q",), ("-s",), ("--no-table-headers",), ("-t", "5"), ("-p", "nosuch"))


@dataclass
class Side:
    """Tools of one broker.

    Attributes:
        tools: Their directory.
        node: Name of the node, which is not compared.
        environment: Variables of their processes.
        told: What came of the commands.
    """

    tools: Path
    node: str
    environment: Mapping[str, str]
    told: dict[tuple[str, ...], Exchange] = field(default_factory=dict)

    def tell(self, commands: Sequence[tuple[str, ...]]) -> None:
        """Run commands that change nothing, side by side."""
        with ThreadPoolExecutor(_WORKERS) as workers:
            for words, found in zip(commands, workers.map(self.say, commands), strict=True):
                self.told[words] = found

    def say(self, words: tuple[str, ...]) -> Exchange:
        """Run one command."""
        return run(words, self.tools, self.node, self.environment)


@dataclass(frozen=True)
class Both:
    """RabbitMQ and this server, with the same objects.

    Attributes:
        rabbitmq: RabbitMQ's tools.
        ours: Ours.
        verbs: Names of RabbitMQ's verbs, by tool.
    """

    rabbitmq: Side
    ours: Side
    verbs: Mapping[str, tuple[str, ...]]

    def differing(self, commands: Sequence[tuple[str, ...]]) -> list[tuple[Exchange, Exchange]]:
        """Run commands on both; return what differs, RabbitMQ's first."""
        for side in (self.rabbitmq, self.ours):
            side.tell(commands)
        pairs = [(self.rabbitmq.told[words], self.ours.told[words]) for words in commands]
        return [pair for pair in pairs if pair[0] != pair[1]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Start RabbitMQ and this server, with the same objects."""
    directory = tmp_path_factory.mktemp("rabbitmq")
    data = tmp_path_factory.mktemp("ours")
    plugins = ("rabbitmq_event_exchange", "rabbitmq_management")
    settings = f"management.tcp.port = {free_ports(1)[0]}\n"
    with (
        start_rabbitmq("RabbitMQ", directory, plugins=plugins, settings=settings) as broker,
        RunningServer(data / "data").start() as server,
    ):
        tools = data / "tools"
        arguments = ["install-rabbitmq-tools", str(tools), "--storage-path"]
        assert main([*arguments, str(server.storage_path)]) == 0
        environment, node = environment_of(directory / CONTROL_COMMAND)
        rabbitmq = Side(TOOLS_OF_RABBITMQ, node, environment)
        ours = Side(tools, NODE, {"PATH": "/usr/bin:/bin"})
        for port in (broker.url.port, server.port):
            _declare(port)
        yield Both(rabbitmq, ours, {tool: _verbs(rabbitmq, tool) for tool in TOOLS})


def _declare(port: int) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as client:
        channel = client.channel()
        for name, kind in (("classic", "classic"), ("quorum", "quorum"), ("stream", "stream")):
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})


def _verbs(side: Side, tool: str) -> tuple[str, ...]:
    found = subprocess.run(
        [str(side.tools / tool), "help"],
        env=side.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(sorted(set(_VERB.findall(found.stdout))))


@pytest.mark.timeout(1200)
def test_there_is_every_verb_of_every_tool(both: Both) -> None:
    assert sum(map(len, both.verbs.values())) > 190
    missing = [
        (tool, name)
        for tool, names in both.verbs.items()
        for name in names
        if name not in VERBS or tool not in VERBS[name].tools
    ]
    assert missing == []


@pytest.mark.timeout(1200)
def test_every_verb_is_written_the_same(both: Both) -> None:
    commands = [(tool, "help", name) for tool, names in both.verbs.items() for name in names]
    both.differing(commands)
    different = set()
    for words in commands:
        usages = [
            _LINE_OF_USAGE.findall("\n".join(side.told[words].output))
            for side in (both.rabbitmq, both.ours)
        ]
        assert len(usages[0]) == len(usages[1]) == 1, words
        if usages[0] != usages[1]:
            different.add(words[2])
        assert both.ours.told[words].code == 0
    assert different == DIFFERENT_USAGES.keys()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("wrong", [("--nosuch",), ("x",) * 9])
def test_every_verb_refuses_what_it_does_not_know(both: Both, wrong: tuple[str, ...]) -> None:
    commands = [
        (tool, name, *wrong)
        for tool, names in both.verbs.items()
        for name in names
        if name not in NOT_TOLD_WRONG
        if wrong == ("--nosuch",) or not _takes_many(name)
    ]
    assert both.differing(commands) == []


def _takes_many(name: str) -> bool:
    return "..." in VERBS[name].usage or "<plugin1>" in VERBS[name].usage


@pytest.mark.timeout(1200)
def test_every_list_has_every_format(both: Both) -> None:
    lists = [
        ("rabbitmqctl", name)
        for name in both.verbs["rabbitmqctl"]
        if name.startswith("list_") and name not in DIFFERENT_LISTS
    ]
    ways = [*((f"--formatter={each}",) for each in _FORMATS), *_WAYS]
    commands = [
        (*words, *way)
        for words in lists
        if "<username>" not in VERBS[words[1]].usage.partition("[--user ")[0]
        for way in ways
    ]
    pairs = both.differing(commands)
    assert [pair for pair in pairs if not _has_no_csv(pair[0])] == []


def _has_no_csv(found: Exchange) -> bool:
    """Whether RabbitMQ ended with an error of its own, or wrote empty lines."""
    return "--formatter=csv" in found.words and not "".join(found.output).strip()


@pytest.mark.timeout(1200)
def test_samples_of_the_other_verbs_do_the_same(both: Both) -> None:
    commands = [tuple(shlex.split(line)) for line in SAMPLES.strip().splitlines()]
    # In their order: some change what the next one shows.
    pairs = [(both.rabbitmq.say(words), both.ours.say(words)) for words in commands]
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


@pytest.mark.timeout(1200)
def test_the_differences_are_still_there(both: Both) -> None:
    commands = [tuple(shlex.split(line)) for line in DIFFERENT]
    different = {pair[0].words for pair in both.differing(commands)}
    assert different == set(commands)
