"""amqplib, the client for Node.js: its conversations stand in `node/conversations.js`."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop

NODE_DIRECTORY = Path(__file__).parent / "node"
CONVERSATIONS_MIN = 12


def test_every_conversation_of_amqplib_goes_well(url: str) -> None:
    node = shutil.which("node")
    assert node is not None, "Node.js is not installed"
    assert (NODE_DIRECTORY / "node_modules" / "amqplib").is_dir(), "run `make node` first"
    outcome = subprocess.run(
        [node, "conversations.js", url],
        cwd=NODE_DIRECTORY,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    results = [json.loads(line) for line in outcome.stdout.splitlines()]
    failed = {result["name"]: result["error"] for result in results if result["error"]}
    assert not failed, "\n".join(f"{name}: {error}" for name, error in failed.items())
    assert len(results) >= CONVERSATIONS_MIN
