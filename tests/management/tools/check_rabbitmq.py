"""What is kept of RabbitMQ's answers is what RabbitMQ answers. Run by `make check-tools`.

Where RabbitMQ's version has changed, `python -m tests.management.tools.record` keeps the new ones.
"""

from pathlib import Path

from tests.management.tools import compare, rabbitmqadmin_session, walk
from tests.management.tools.rabbitmq_node import rabbitmq_api


def test_rabbitmq_answers_as_recorded(tmp_path: Path) -> None:
    with rabbitmq_api(tmp_path) as api:
        answers = walk.walk(api)

    for one, other in ((walk.recorded(), answers), (answers, walk.recorded())):
        different = [str(each) for each in compare.differences(one, other)]
        assert not different, "\n".join(different)


def test_rabbitmqadmin_prints_as_recorded(tmp_path: Path) -> None:
    node, files = tmp_path / "node", tmp_path / "files"
    node.mkdir()
    files.mkdir()
    with rabbitmq_api(node) as api:
        printed = rabbitmqadmin_session.run_session(api, files)

    recorded = rabbitmqadmin_session.recorded()
    different = [(one, other) for one, other in zip(recorded, printed, strict=True) if one != other]
    assert not different
