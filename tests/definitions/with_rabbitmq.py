"""What RabbitMQ makes of unusual files is still what the tests expect of ours; `make check-tools`.

python -m tests.definitions.with_rabbitmq     writes it down again
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.definitions.rabbitmq_node import rabbit_node
from tests.definitions.test_rabbitmq_files import (
    CHANCE,
    MADE_BY_RABBITMQ,
    made,
    write_unusual_files,
)


def made_by_rabbitmq(directory: Path) -> dict[str, Any]:
    """Import the files one after the other, and return what is there then."""
    (directory / "rabbitmq").mkdir()
    with rabbit_node(directory / "rabbitmq") as node:
        for number, (is_taken, path) in enumerate(write_unusual_files(directory).values()):
            node.ctl("add_vhost", f"v{number}")
            node.ctl("set_vhost_limits", "-p", f"v{number}", '{"max-queues": 2}')
            if is_taken:
                node.ctl("import_definitions", str(path))
            else:
                with pytest.raises(AssertionError, match=r"\S"):
                    node.ctl("import_definitions", str(path))
        return made(node.export(), CHANCE)


def test_rabbitmq_makes_of_unusual_files_what_is_expected_of_ours(tmp_path: Path) -> None:
    assert made_by_rabbitmq(tmp_path) == json.loads(MADE_BY_RABBITMQ.read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = made_by_rabbitmq(Path(name))
    MADE_BY_RABBITMQ.write_text(json.dumps(found, indent=2) + "\n")
