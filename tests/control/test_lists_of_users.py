"""Lists of users and permissions are sorted off the event loop: there may be 100,000 users."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import pytest

from amqp_server.access.access_control import AccessControl
from amqp_server.access.permissions import FULL, TopicPermissions
from amqp_server.access.user import User
from amqp_server.control.permissions import list_permissions, list_topic_permissions
from amqp_server.control.users import list_all
from tests.threaded_server import ThreadedServer


class Name(str):
    """A name that notes in which threads it was compared."""

    __slots__ = ()
    threads: ClassVar[set[str]] = set()

    def __lt__(self, other: str) -> bool:
        """Compare, and note the thread."""
        self.threads.add(threading.current_thread().name)
        return str.__lt__(self, other)


@pytest.mark.parametrize("make", [list_all, list_permissions, list_topic_permissions])
def test_rows_are_sorted_in_a_worker(
    tmp_path: Path, make: Callable[[AccessControl], Awaitable[list[dict[str, object]]]]
) -> None:
    Name.threads.clear()
    with ThreadedServer(tmp_path) as server:
        access = server.server.access

        def fill() -> None:
            for text in ("b", "a", "c"):
                name = Name(text)
                access.users[name] = User(name)
                access.permissions.setdefault("/", {})[name] = FULL
                access.topics.setdefault("/", {})[name] = {
                    Name(exchange): TopicPermissions("", "") for exchange in "yx"
                }

        server.call(fill)
        rows = server.run(lambda: make(access))

    names = [str(row.get("name") or row["user"]) for row in rows]
    assert names == sorted(names)
    assert len(names) > 3
    assert Name.threads
    assert "server" not in Name.threads
