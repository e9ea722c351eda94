"""RabbitMQ's `rabbitmqadmin`, unmodified, prints the same with our API as with RabbitMQ's."""

from pathlib import Path

import pytest

from tests.management.tools import rabbitmqadmin_session as session
from tests.management.tools.api import Api

WANTED = {
    'declare policy name=wrong pattern=x definition={"nosuch":1}': "< is no &lt; outside of HTML",
    "publish exchange=nosuch routing_key=x payload=x": "404, as RabbitMQ 4 does",
    "-f raw_json -V other list queues name arguments": "the order of fields",
    "list parameters": "the order of fields",
    "get queue=stream": "with the name of the code, as all such texts",
}
"""Commands whose output differs on purpose, with the reason."""


@pytest.mark.timeout(120)
def test_every_subcommand_prints_what_it_prints_with_rabbitmq(api: Api, tmp_path: Path) -> None:
    printed = session.run_session(api, tmp_path)

    found = {
        ours[0]
        for theirs, ours in zip(session.recorded(), printed, strict=True)
        if not session.is_same(theirs, ours)
    }
    assert found >= WANTED.keys()
    different = [
        f"{ours[0]}\n  RabbitMQ: {theirs[1:]}\n  ours:     {ours[1:]}"
        for theirs, ours in zip(session.recorded(), printed, strict=True)
        if not session.is_same(theirs, ours) and ours[0] not in WANTED
    ]
    assert not different, "\n".join(different)
