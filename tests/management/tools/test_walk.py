"""Whatever RabbitMQ's API answers, ours answers too, but for the differences that are wanted."""

from typing import Any

from tests.management.tools import compare, walk
from tests.management.tools.api import Api
from tests.management.tools.typed_clients import RABBIT_HOLE, RABBITMQADMIN_2, faults


def test_the_api_answers_as_rabbitmq_does(api: Api) -> None:
    unreadable: list[str] = []

    def look_around(ask: walk.Ask) -> None:
        for name, table in (("rabbitmqadmin 2", RABBITMQADMIN_2), ("rabbit-hole", RABBIT_HOLE)):
            for path, kind in table.items():
                unreadable.extend(_unreadable(f"{name}, {path}", ask(path), kind, name))

    answers = walk.walk(api, look_around)
    unwanted, unmet = compare.unwanted(compare.differences(walk.recorded(), answers))

    assert not unreadable, "\n".join(unreadable)
    assert not unwanted, "\n".join(map(str, unwanted))
    assert not unmet, f"nothing differs as these say: {unmet}"


def _unreadable(title: str, reply: Any, kind: Any, name: str) -> list[str]:  # noqa: ANN401 - types of JSON
    if reply.status != 200:
        return [f"{title}: {reply.status}"]
    found = faults(kind, reply.value, is_lenient=name == "rabbit-hole")
    return [f"{title} {fault}" for fault in dict.fromkeys(found)]
