"""Pages are made once for all who ask in the same second, in slices, and within bounds."""

from __future__ import annotations

import asyncio
import gzip
from http import HTTPStatus

import pytest

from amqp_server.management.metrics import page_server
from amqp_server.management.metrics.page_server import MAKING_MAX, PAGES_MAX, PageServer
from tests.management.metrics.mirror_rows import FixedMirror, FixedRow, mirror_of_queues
from tests.management.metrics.samples import samples, value


async def test_the_content_type_is_that_of_the_text_format() -> None:
    answer = await PageServer(FixedMirror()).answer("/metrics")
    assert answer.status == HTTPStatus.OK
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert not answer.is_gzipped


async def test_a_compressed_page_is_the_same_page() -> None:
    server = PageServer(mirror_of_queues("a", "b"))
    plain = await server.answer("/metrics/per-object")
    packed = await server.answer("/metrics/per-object", accept_encoding="gzip")
    assert packed.is_gzipped
    assert gzip.decompress(packed.body) == plain.body


async def test_refusals() -> None:
    server = PageServer(FixedMirror())
    assert (await server.answer("/metrics/x")).status == HTTPStatus.NOT_FOUND
    openmetrics = "application/openmetrics-text"
    assert (await server.answer("/metrics", accept=openmetrics)).status == HTTPStatus.NOT_ACCEPTABLE
    query = "family=queue_metrics&queue=("
    wrong = await server.answer("/metrics/detailed", query, accept_encoding="gzip")
    assert wrong.status == HTTPStatus.BAD_REQUEST
    assert not wrong.is_gzipped
    assert wrong.body.startswith(b"Invalid 'queue' regex")


async def test_an_expression_that_takes_too_long_is_told_and_not_kept() -> None:
    server = PageServer(mirror_of_queues("a" * 200))
    query = r"family=queue_metrics&queue=^(?:(?:a|a)%2B)%2B\d$"
    for _ in range(2):
        answer = await server.answer("/metrics/detailed", query)
        assert answer.status == HTTPStatus.BAD_REQUEST
        assert b"too long" in answer.body


async def test_only_what_is_asked_for_is_shown() -> None:
    mirror = mirror_of_queues("orders", "bills")
    mirror.queues |= mirror_of_queues("orders", vhost="other").queues
    server = PageServer(mirror)
    query = "family=queue_coarse_metrics&family=queue_coarse_metrics&family=nosuch&queue=^o&vhost=/"
    found = samples((await server.answer("/metrics/detailed", query)).body)
    assert [sample.labels for sample in found["rabbitmq_detailed_queue_messages_ready"]] == [
        {"vhost": "/", "queue": "orders"}
    ]
    assert "rabbitmq_detailed_queue_consumers" not in found


async def test_an_unknown_virtual_host_has_no_objects() -> None:
    server = PageServer(mirror_of_queues("orders"))
    query = "family=queue_coarse_metrics&vhost=nosuch"
    answer = await server.answer("/metrics/detailed", query)
    assert answer.status == HTTPStatus.OK
    assert "rabbitmq_detailed_queue_messages_ready" not in samples(answer.body)


async def test_without_families_there_is_only_who_the_broker_is() -> None:
    answer = await PageServer(mirror_of_queues("orders")).answer("/metrics/detailed")
    assert set(samples(answer.body)) == {"rabbitmq_build_info", "rabbitmq_identity_info"}


async def test_the_start_of_the_broker_is_that_of_the_node() -> None:
    server = PageServer(FixedMirror(node=FixedRow({"started_seconds": 1_700_000_000.25})))
    for path in ("/metrics", "/metrics/per-object"):
        page = (await server.answer(path)).body
        assert value(page, "process_start_time_seconds") == 1_700_000_000.25


async def test_each_page_says_once_which_page_it_is() -> None:
    server = PageServer(mirror_of_queues("a"))
    for path, endpoint in (
        ("/metrics", "aggregated"),
        ("/metrics/per-object", "per-object"),
        ("/metrics/detailed", "detailed"),
        ("/metrics/memory-breakdown", "memory-breakdown"),
    ):
        body = (await server.answer(path)).body
        assert value(body, "rabbitmq_identity_info", rabbitmq_endpoint=endpoint) == 1
        assert len(samples(body)["rabbitmq_identity_info"]) == 1


async def test_those_who_ask_at_the_same_time_share_one_page() -> None:
    mirror = mirror_of_queues("a")
    server = PageServer(mirror)
    answers = await asyncio.gather(*(server.answer("/metrics") for _ in range(50)))
    assert len({answer.body for answer in answers}) == 1
    assert mirror.refresh_count == 1


async def test_a_client_that_goes_away_does_not_end_the_page_of_another() -> None:
    server = PageServer(mirror_of_queues("a"))
    gone = asyncio.create_task(server.answer("/metrics"))
    stays = asyncio.create_task(server.answer("/metrics"))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await stays).status == HTTPStatus.OK


async def test_a_page_is_new_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "KEPT_SECONDS", 0.0)
    mirror = mirror_of_queues("a")
    server = PageServer(mirror)
    await server.answer("/metrics")
    mirror.queues.clear()
    dropped = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, dropped.set)
    await dropped.wait()
    assert value((await server.answer("/metrics")).body, "rabbitmq_queue_messages_ready") == 0


async def test_a_failure_is_told_to_all_who_wait_and_not_kept() -> None:
    mirror = mirror_of_queues("a")
    mirror.failure = ConnectionError("the broker is away")
    server = PageServer(mirror)
    failures = await asyncio.gather(
        *(server.answer("/metrics") for _ in range(3)), return_exceptions=True
    )
    assert [type(failure) for failure in failures] == [ConnectionError] * 3
    mirror.failure = None
    assert (await server.answer("/metrics")).status == HTTPStatus.OK


async def test_too_many_different_pages_are_refused() -> None:
    server = PageServer(mirror_of_queues("a"))
    queries = [f"family=queue_metrics&queue={number}" for number in range(PAGES_MAX + 1)]
    answers = [await server.answer("/metrics/detailed", query) for query in queries]
    assert [answer.status for answer in answers] == [
        *[HTTPStatus.OK] * PAGES_MAX,
        HTTPStatus.SERVICE_UNAVAILABLE,
    ]
    assert (await server.answer("/metrics/detailed", queries[0])).status == HTTPStatus.OK


async def test_large_pages_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "KEPT_BYTES_MAX", 0)
    mirror = mirror_of_queues("a")
    server = PageServer(mirror)
    for count in (1, 2):
        await server.answer("/metrics")
        await asyncio.sleep(0)
        assert mirror.refresh_count == count


async def test_only_some_pages_are_made_at_a_time() -> None:
    server = PageServer(mirror_of_queues(*(f"queue.{number}" for number in range(2000))))
    wanted = [
        asyncio.create_task(server.answer("/metrics/detailed", f"family=queue_metrics&queue={n}"))
        for n in range(MAKING_MAX + 1)
    ]
    await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
    assert not wanted[-1].done()
    assert {answer.status for answer in await asyncio.gather(*wanted)} == {HTTPStatus.OK}


async def test_other_work_goes_on_while_a_large_page_is_made() -> None:
    server = PageServer(mirror_of_queues(*(f"queue.{number}" for number in range(5000))))
    page = asyncio.create_task(server.answer("/metrics/per-object"))
    turns = 0
    while not page.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(samples_of(page.result().body, "rabbitmq_queue_messages_ready")) == 5000
    assert turns > 10


def samples_of(page: bytes, name: str) -> list[str]:
    return [line for line in page.decode().splitlines() if line.startswith(name + "{")]
