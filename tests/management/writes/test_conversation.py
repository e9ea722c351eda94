"""The recorded conversation with RabbitMQ: codes, texts and bodies of every write are the same."""

from tests.management.conftest import ManagementServer
from tests.management.writes.conversation import steps


def test_the_server_answers_as_rabbitmq_but_where_the_record_says_why(
    management_server: ManagementServer,
) -> None:
    management_server.put("/api/cluster-name", {"name": "c1"})
    # In order: later steps use what earlier ones have made.
    for step in steps():
        step.check(management_server.url)


def test_every_difference_has_a_reason() -> None:
    recorded = list(steps())
    assert len(recorded) > 300
    for step in recorded:
        assert ("ours" in step.fields) == ("why" in step.fields), step.fields["request"]
