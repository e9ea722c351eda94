"""The native clients of the traffic table: programs of other projects against our own server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.our_server import start_our_server
from bench.running_broker import RunningBroker
from bench.traffic.native.body import Verifier, percentiles, read_bodies
from bench.traffic.native.clients import CLIENTS, ROOT_VARIABLE, NativeClient, Program
from bench.traffic.native.native_run import NativeRun
from bench.traffic.row import TrafficEffort

TINY = TrafficEffort(seconds=0.1, warm_up_seconds=0.0, share=0.001, seed=7)
BY_NAME = {client.name: client for client in CLIENTS}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    # Interpreted: the test must also run where the kernels are not compiled.
    with start_our_server("ours", tmp_path_factory.mktemp("server"), is_pure=True) as running:
        yield running


@pytest.mark.interop
@pytest.mark.parametrize("name", ["pika", "aio-pika", "amqplib"])
def test_a_native_client_loses_nothing(broker: RunningBroker, name: str) -> None:
    figures = NativeRun(BY_NAME[name])(broker, TINY)

    assert figures.faults == 0
    assert figures.messages > 0
    assert figures.latency is not None
    assert 0 < figures.latency.p50 <= figures.latency.p99
    json.dumps(figures.to_json())


@pytest.mark.interop
def test_a_client_that_fails_is_an_error_with_its_words(broker: RunningBroker) -> None:
    client = NativeClient(
        "broken", "", lambda: "", lambda _: Program(("sh", "-c", "echo no such queue >&2"), {})
    )

    with pytest.raises(BenchError, match="no such queue"):
        NativeRun(client)(broker, TINY)


def test_each_client_names_the_packages_that_bring_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    packages = {
        "amqp091-go": "golang-github-rabbitmq-amqp091-go-dev",
        "java": "librabbitmq-client-java",
        "librabbitmq": "librabbitmq-dev",
        "amqplib": "nodejs",
    }
    for name, package in packages.items():
        assert package in BY_NAME[name].try_missing()


def test_bodies_of_native_clients_have_digests_and_faults_are_counted(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("40\n100\n")
    (tmp_path / "tails.bin").write_bytes(bytes(range(200)))
    body = read_bodies(tmp_path)
    verifier = Verifier()
    for number in (0, 1, 3):
        verifier.take(body(number))
    changed = bytearray(body(3))
    changed[50] ^= 1
    verifier.take(bytes(changed))

    assert [len(body(number)) for number in range(3)] == [40, 100, 40]
    assert verifier.to_json() == {"received": 4, "corrupt": 1, "disordered": 1}
    assert dict(percentiles([3000, 1000, 2000])) == {"p50_us": 2.0, "p99_us": 3.0}
