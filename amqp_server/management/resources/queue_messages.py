"""The messages of a queue: browse, replay, return, move, who holds them, pause.

RabbitMQ's API has none of these.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.following.server_sent import (
    CONTENT_TYPE,
    HEADERS,
    HEARTBEAT,
    encode_event,
)
from amqp_server.management.http.answers import (
    NO_CONTENT,
    Answer,
    AnyAnswer,
    ApiError,
    Stream,
    bad_request,
    ok,
)
from amqp_server.management.http.refusals import error_of
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import boolean, integer, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from amqp_server.management.broker_client import BrokerClient
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

BODY_BYTES_DEFAULT: Final = 4096
FILTERS_MAX: Final = 32
LONG_REQUESTS_MAX: Final = 4
"""Replays and returns that run at the same time: each holds a connection to the broker."""
HEARTBEAT_SECONDS: Final = 15.0
_INCLUDE: Final = "settled"


class _QueueMessages:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker
        self._long_requests = 0

    async def browse(self, call: Call) -> AnyAnswer:
        query = call.query
        arguments = {
            **_queue(call),
            "start": query.get("from", "first"),
            "until": query.get("until", ""),
            "state": query.get("state", ""),
            "filters": _filters(_repeated(call, "filter")),
            "limit": integer(query, "limit", 100),
            "body_bytes": integer(query, "body_bytes", BODY_BYTES_DEFAULT),
            "search": query.get("search", ""),
        }
        page = await self._ask(call, "queues.browse", arguments)
        following = page["next"] if page["next"] < page["until"] else None
        return ok({"items": page.pop("messages"), **page, "next": following})

    async def unacked(self, call: Call) -> AnyAnswer:
        page = await self._ask(call, "queues.unacked", _page_of(call))
        return ok({"items": page.pop("rows"), **page, "next": page["next"] or None})

    async def groups(self, call: Call) -> AnyAnswer:
        page = await self._ask(call, "queues.groups", _page_of(call))
        return ok({"items": page["groups"], "next": page["next"] or None})

    async def seek(self, call: Call) -> AnyAnswer:
        body = await call.body()
        arguments = {
            **_queue(call),
            "shards": "",
            "group": call.segments["group"],
            "to": text(body, "to", ""),
            "force": boolean(body, "force"),
        }
        try:
            (row,) = await self._broker.call("offsets.seek", arguments, actor=call.actor)
        except BrokerRefused as refused:
            raise _error_of(refused) from refused
        return ok(row)

    async def pause(self, call: Call) -> AnyAnswer:
        return await self._set_paused(call, "queues.pause")

    async def resume(self, call: Call) -> AnyAnswer:
        return await self._set_paused(call, "queues.resume")

    async def replay(self, call: Call) -> AnyAnswer:
        body = await call.body()
        arguments = {
            **_transfer(call, body),
            "to": text(body, "to", ""),
            "include": text(body, "include", _INCLUDE),
        }
        return await self._run(call, "queues.replay", arguments)

    async def return_dead_letters(self, call: Call) -> AnyAnswer:
        arguments = _transfer(call, await call.body())
        return await self._run(call, "queues.return_dead_letters", arguments)

    async def move(self, call: Call) -> AnyAnswer:
        body = await call.body()
        arguments = {
            **_transfer(call, body),
            "to": text(body, "to", ""),
            "limit": integer(body, "limit", 0),
        }
        return await self._run(call, "queues.move", arguments)

    async def _set_paused(self, call: Call, command: str) -> AnyAnswer:
        place = {"vhost": call.segments["vhost"], "name": call.segments["name"]}
        await self._ask(call, command, place)
        return NO_CONTENT

    async def _ask(self, call: Call, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await self._broker.call(command, arguments, actor=call.actor)
        except BrokerRefused as refused:
            raise _error_of(refused) from refused
        return dict(result)

    async def _run(self, call: Call, command: str, arguments: dict[str, Any]) -> AnyAnswer:
        """Run a long command; with its progress, if the client takes server-sent events."""
        if arguments["background"]:
            return Answer(HTTPStatus.ACCEPTED, await self._ask(call, command, arguments))
        if self._long_requests >= LONG_REQUESTS_MAX:
            reason = f"{LONG_REQUESTS_MAX} long requests are at work, the limit: try again later"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", reason)
        if CONTENT_TYPE not in call.headers.get("Accept", ""):
            self._long_requests += 1
            try:
                return ok(await self._ask(call, command, arguments))
            finally:
                self._long_requests -= 1
        run = _Run(self._broker, command, arguments, call.actor)
        self._long_requests += 1
        run.task.add_done_callback(self._on_run_ended)
        # What is refused at once gets a status of its own.
        await run.until_begun()
        return Stream(CONTENT_TYPE, run.parts(), HEADERS)

    def _on_run_ended(self, _task: asyncio.Task[Any]) -> None:
        self._long_requests -= 1


class _Run:
    """One long command, whose progress one client follows. It ends when the client goes."""

    def __init__(
        self,
        broker: BrokerClient,
        command: str,
        arguments: Mapping[str, Any],
        actor: Mapping[str, str],
    ) -> None:
        self._progress: dict[str, Any] | None = None
        self._woken = asyncio.Event()
        asking = broker.call(command, arguments, actor=actor, on_progress=self._take)
        self.task = asyncio.create_task(asking, name=command)
        self.task.add_done_callback(lambda _: self._woken.set())

    async def until_begun(self) -> None:
        """Return when the first report is there, or the result.

        Raises:
            ApiError: The broker has refused the command.
        """
        try:
            await self._woken.wait()
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        if self.task.done() and isinstance(error := self.task.exception(), BrokerRefused):
            raise _error_of(error)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the progress, then the result or the error. Only the last report counts."""
        try:
            while not self.task.done():
                progress, self._progress = self._progress, None
                self._woken.clear()
                yield HEARTBEAT if progress is None else encode_event(progress, name="progress")
                await self._until_woken()
            error = self.task.exception()
            if error is None:
                yield encode_event(self.task.result(), name="done")
            elif isinstance(error, BrokerRefused):
                refused = _error_of(error)
                value = {"error": refused.error, "reason": refused.reason}
                yield encode_event(value, name="error")
            else:
                value = {"error": "unavailable", "reason": "The broker does not answer"}
                yield encode_event(value, name="error")
        finally:
            self.task.cancel()

    async def _until_woken(self) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            return

    def _take(self, progress: dict[str, Any]) -> None:
        self._progress = progress
        self._woken.set()


def _error_of(refused: BrokerRefused) -> ApiError:
    """Return what a client gets: what a queue's state does not allow is its mistake."""
    return bad_request(refused.reason) if str(refused.kind) == "failed" else error_of(refused)


def _queue(call: Call) -> dict[str, str]:
    return {"vhost": call.segments["vhost"], "queue": call.segments["name"]}


def _page_of(call: Call) -> dict[str, Any]:
    limit = integer(call.query, "limit", 100)
    return {**_queue(call), "after": call.query.get("after", ""), "limit": limit}


def _transfer(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_queue(call),
        "start": text(body, "from", "first"),
        "until": text(body, "until", ""),
        "filters": _filters(body.get("filters", [])),
        "dry_run": boolean(body, "dry_run"),
        "background": boolean(body, "background"),
    }


def _filters(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise bad_request(["not_a_list_of_strings", "filters"])
    if len(value) > FILTERS_MAX:
        raise bad_request(f"more than {FILTERS_MAX} filters")
    return value


def _repeated(call: Call, name: str) -> list[str]:
    """Return all fields of the query with a name."""
    query = call.request.raw_path.partition("?")[2].partition("#")[0]
    return [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]


def routes(parts: Parts) -> list[Route]:
    """Return the routes of a queue's messages."""
    messages = _QueueMessages(parts)
    one = "/api/queues/{vhost}/{name}"
    return [
        Route("GET", f"{one}/messages", messages.browse),
        Route("GET", f"{one}/unacked", messages.unacked),
        Route("GET", f"{one}/groups", messages.groups),
        Route("PUT", f"{one}/groups/{{group}}", messages.seek),
        Route("PUT", f"{one}/pause", messages.pause),
        Route("PUT", f"{one}/resume", messages.resume),
        Route("POST", f"{one}/replay", messages.replay, is_json=False),
        Route("POST", f"{one}/dead-letters/return", messages.return_dead_letters, is_json=False),
        Route("POST", f"{one}/move", messages.move, is_json=False),
    ]
