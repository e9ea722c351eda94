"""What happens now: `/api/events` and `/api/livelog`, as server-sent events."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.following.feed import Feed
from amqp_server.management.following.server_sent import CONTENT_TYPE, HEADERS
from amqp_server.management.http.answers import AnyAnswer, Stream, bad_request
from amqp_server.management.http.call import Tag
from amqp_server.management.http.routes import Route
from amqp_server.management.http.values import integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

EARLIER_MAX: Final = 100
"""Lines of the log from before that a client may ask for."""
PATTERNS_MAX: Final = 32
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class _Following:
    def __init__(self, parts: Parts) -> None:
        self._events = Feed(parts.broker, "events.follow", "events")
        self._log = Feed(parts.broker, "log.follow", "lines", {"last": EARLIER_MAX})

    async def events(self, call: Call) -> AnyAnswer:
        patterns = [each for each in call.query.get("event", "").split(",") if each]
        if len(patterns) > PATTERNS_MAX:
            raise bad_request(f"more than {PATTERNS_MAX} names of events")
        vhost = call.query.get("vhost")

        def is_wanted(event: Mapping[str, Any]) -> bool:
            name = str(event.get("event"))
            return (
                not patterns or any(fnmatchcase(name, each) for each in patterns)
            ) and vhost in (None, event.get("vhost", ""))

        parts = self._events.stream(_last_event_id(call), is_wanted)
        return Stream(CONTENT_TYPE, parts, HEADERS)

    async def log(self, call: Call) -> AnyAnswer:
        last = integer(call.query, "last", EARLIER_MAX)
        if not 0 <= last <= EARLIER_MAX:
            raise bad_request(f"last is {last}, must be 0 to {EARLIER_MAX}")
        level = call.query.get("level", _LEVELS[0])
        if level not in _LEVELS:
            raise bad_request(f"level must be one of {', '.join(_LEVELS)}")
        wanted = _LEVELS[_LEVELS.index(level) :]

        def is_wanted(line: Mapping[str, Any]) -> bool:
            return line.get("level") in wanted

        parts = self._log.stream(_last_event_id(call), is_wanted, last)
        return Stream(CONTENT_TYPE, parts, HEADERS)


def _last_event_id(call: Call) -> str:
    """Return the last identity that a client has; a page that is opened again puts it here too."""
    return str(call.headers.get("Last-Event-ID") or call.query.get("last_event_id", ""))


def routes(parts: Parts) -> list[Route]:
    """Return the routes of what happens now."""
    following = _Following(parts)
    return [
        Route("GET", "/api/events", following.events, Tag.MONITORING, is_json=False),
        Route("GET", "/api/livelog", following.log, Tag.MONITORING, is_json=False),
    ]
