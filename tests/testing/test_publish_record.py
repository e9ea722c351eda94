"""What is kept of published messages, and what has come since one has looked."""

from amqp_server.testing.publish_record import MESSAGES_MAX, PublishRecord


def test_what_came_since_is_told_also_when_older_messages_are_forgotten() -> None:
    record = PublishRecord()
    record.note((), [b"%d" % number for number in range(MESSAGES_MAX + 10)])
    assert record.count == MESSAGES_MAX + 10
    for seen, first in ((0, 10), (9, 10), (10, 10), (11, 11), (record.count - 2, record.count - 2)):
        found = [message for message, _ in record.since(seen)]
        assert (found[0], found[-1]) == (b"%d" % first, b"%d" % (record.count - 1)), seen
        assert len(found) == record.count - first
    assert record.since(record.count) == []
