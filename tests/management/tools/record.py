"""Keeps what the installed RabbitMQ answers, for the tests that compare this server with it.

python -m tests.management.tools.record
"""

import tempfile
from pathlib import Path

from tests.management.tools import rabbitmqadmin_session, walk
from tests.management.tools.rabbitmq_node import rabbitmq_api


def main() -> None:
    """Start a RabbitMQ for each recording, and write the files."""
    with tempfile.TemporaryDirectory() as directory, rabbitmq_api(Path(directory)) as api:
        walk.write(walk.walk(api))
    with (
        tempfile.TemporaryDirectory() as directory,
        tempfile.TemporaryDirectory() as files,
        rabbitmq_api(Path(directory)) as api,
    ):
        rabbitmqadmin_session.write(rabbitmqadmin_session.run_session(api, Path(files)))


if __name__ == "__main__":
    main()
