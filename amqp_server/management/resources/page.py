"""The page for browsers: every path that is no other route's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqp_server.management.http.answers import AnyAnswer, not_found
from amqp_server.management.http.routes import Route
from amqp_server.management.http.static_files import StaticFiles

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

DIRECTORY: Final = Path(__file__).parent.parent / "page"


def routes(parts: Parts) -> list[Route]:
    """Return the route of the page's files."""
    del parts
    files = StaticFiles(DIRECTORY)

    async def show(call: Call) -> AnyAnswer:
        answer = await files.answer(call, call.segments["file"])
        if answer is None:
            raise not_found()
        return answer

    path = "/{file...}"
    return [Route("GET", path, show, requires=None, is_json=False, is_for_any_host=True)]
