"""RabbitMQ's Java client has tests of what a broker does; they pass with this one.

`make check-tools` runs this, as root: the tests connect to port 5672, so they get a network of
their own. `build/java-client/results.txt` has the result of each test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.docs.foreign_pages import need
from tests.java_client.broker_under_test import BrokerUnderTest
from tests.java_client.namespace import NetworkNamespace
from tests.java_client.sources import BUILD, JAR_NAMES, JARS, class_path, compiled
from tests.servers import NO_MANAGEMENT

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

_NO_TINY_LIMIT: Final = "it limits memory to a billionth, which is refused; MemoryAlarms passes"
_NO_ERLANG: Final = "it changes a setting by an Erlang term; here that is an option"
DIFFERENT: Final = {
    "test.functional.ConnectionRecovery.blockedListenerRecovery": _NO_TINY_LIMIT,
    "test.server.BlockedConnection.initialBlock": _NO_TINY_LIMIT,
    "test.server.BlockedConnection.testBlock": _NO_TINY_LIMIT,
    "test.server.Permissions.passiveDeclaration": "as in RabbitMQ 4.3, a user without any right "
    "to a queue or exchange does not learn whether it exists (docs/users.md)",
    "test.functional.FrameMax.rejectLargeFramesDuringConnectionNegotiation": "a login may have "
    "64 KiB, because tokens are long (docs/protocol-differences.md)",
    "test.server.ChannelLimitNegotiation.openingTooManyChannels": _NO_ERLANG,
    "test.server.ChannelLimitNegotiation.channelMaxGreaterThanServerValue": _NO_ERLANG,
    "test.server.LoopbackUsers.loopback": _NO_ERLANG,
    "test.server.XDeathHeaderGrowth.handlingOfXDeathHeadersFromEarlierVersions": "only brokers "
    "before RabbitMQ 3.5 wrote deaths without a count; they stay as they are"
    " (docs/protocol-differences.md)",
}
"""Tests that fail on purpose, with the reason."""
RESULTS: Final = BUILD / "results.txt"
PACKAGES: Final = "default-jdk-headless librabbitmq-client-java libslf4j-java junit4 junit5 make"
CLASSES: Final = (
    "impl.WorkPoolTests",
    "test.Bug20004Test",
    "test.functional.AlternateExchange",
    "test.functional.BasicConsume",
    "test.functional.BasicGet",
    "test.functional.BindingLifecycle",
    "test.functional.CcRoutes",
    "test.functional.Confirm",
    "test.functional.ConnectionOpen",
    "test.functional.ConnectionRecovery",
    "test.functional.ConsumerCancelNotification",
    "test.functional.ConsumerCount",
    "test.functional.ConsumerPriorities",
    "test.functional.DeadLetterExchange",
    "test.functional.DefaultExchange",
    "test.functional.DirectReplyTo",
    "test.functional.DoubleDeletion",
    "test.functional.DurableOnTransient",
    "test.functional.ExceptionHandling",
    "test.functional.ExceptionMessages",
    "test.functional.ExchangeDeclare",
    "test.functional.ExchangeDeleteIfUnused",
    "test.functional.ExchangeExchangeBindings",
    "test.functional.ExchangeExchangeBindingsAutoDelete",
    "test.functional.FrameMax",
    "test.functional.HeadersExchangeValidation",
    "test.functional.Heartbeat",
    "test.functional.InternalExchange",
    "test.functional.InvalidAcks",
    "test.functional.InvalidAcksTx",
    "test.functional.MessageCount",
    "test.functional.Nack",
    "test.functional.NoRequeueOnCancel",
    "test.functional.PerConsumerPrefetch",
    "test.functional.PerMessageTTL",
    "test.functional.PerQueueTTL",
    "test.functional.PerQueueVsPerMessageTTL",
    "test.functional.Policies",
    "test.functional.QosTests",
    "test.functional.QueueExclusivity",
    "test.functional.QueueLease",
    "test.functional.QueueLifecycle",
    "test.functional.QueueSizeLimit",
    "test.functional.Recover",
    "test.functional.Reject",
    "test.functional.RequeueOnChannelClose",
    "test.functional.RequeueOnConnectionClose",
    "test.functional.Routing",
    "test.functional.SaslMechanisms",
    "test.functional.Tables",
    "test.functional.Transactions",
    "test.functional.UnbindAutoDeleteExchange",
    "test.functional.UnexpectedFrames",
    "test.functional.UserIDHeader",
    "test.server.AbsentQueue",
    "test.server.AlternateExchangeEquivalence",
    "test.server.BlockedConnection",
    "test.server.Bug19219Test",
    "test.server.ChannelLimitNegotiation",
    "test.server.DeadLetterExchangeDurable",
    "test.server.DurableBindingLifecycle",
    "test.server.EffectVisibilityCrossNodeTest",
    "test.server.ExclusiveQueueDurability",
    "test.server.Firehose",
    "test.server.LoopbackUsers",
    "test.server.MemoryAlarms",
    "test.server.MessageRecovery",
    "test.server.Permissions",
    "test.server.PersistenceGuarantees",
    "test.server.PriorityQueues",
    "test.server.Shutdown",
    "test.server.TopicPermissions",
    "test.server.XDeathHeaderGrowth",
)
"""All of the lists `FunctionalTests` and `ServerTests`, but `Metrics`, and three more."""


@pytest.fixture(scope="module")
def classes() -> Path:
    """Give the directory of the compiled tests."""
    assert os.geteuid() == 0, "only root may make a network for the tests"
    parts = {f"{name}.jar": (JARS / f"{name}.jar").exists() for name in JAR_NAMES}
    tools = {name: shutil.which(name) for name in ("javac", "make", "unshare", "nsenter", "ip")}
    need({**tools, **parts}, PACKAGES)
    RESULTS.unlink(missing_ok=True)
    return compiled(CLASSES)


@pytest.fixture(scope="module")
def network() -> Iterator[NetworkNamespace]:
    """Give a network in which port 5672 is free."""
    with NetworkNamespace() as network:
        yield network


@pytest.fixture(scope="module")
def broker(
    network: NetworkNamespace, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerUnderTest]:
    """Give the server; it must not log one error."""
    with BrokerUnderTest(tmp_path_factory.mktemp("broker"), network) as broker:
        yield broker
    log = broker.log.read_text()
    assert "level=error" not in log, log
    assert "Traceback" not in log, log


@pytest.mark.parametrize("name", CLASSES)
def test_the_tests_of_a_class_pass(
    name: str, classes: Path, network: NetworkNamespace, broker: BrokerUnderTest, tmp_path: Path
) -> None:
    command = ["java", "-cp", class_path(classes), *broker.properties()]
    command += ["org.junit.platform.console.ConsoleLauncher", "--disable-banner"]
    command += ["--reports-dir", str(tmp_path), "-c", f"com.rabbitmq.client.{name}"]
    done = subprocess.run(
        network.command(*command),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **NO_MANAGEMENT},
    )
    report = tmp_path / "TEST-junit-vintage.xml"
    assert report.exists(), done.stdout + done.stderr
    failed: set[str] = set()
    with RESULTS.open("a") as results:
        for case in ElementTree.parse(report).iter("testcase"):
            test = f"{name}.{case.attrib['name'].removesuffix('()')}"
            if case.find("failure") is None and case.find("error") is None:
                result = "passed" if case.find("skipped") is None else "skipped"
            else:
                failed.add(test)
                result = f"differs: {DIFFERENT[test]}" if test in DIFFERENT else "FAILED"
            results.write(f"{test} {result}\n")
    expected = {test for test in DIFFERENT if test.startswith(f"{name}.")}
    assert failed == expected, done.stdout + done.stderr
