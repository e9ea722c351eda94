"""The process of the management server; only the broker starts it."""

from __future__ import annotations

import logging
import sys

from amqp_server.base.child_main import is_child_of, read_settings
from amqp_server.management.priority import lower_priority


def main() -> int:
    """Read the settings, then serve until the broker ends.

    Returns:
        Exit code: 0.
    """
    lower_priority()
    line = read_settings()
    if not line:
        return 0
    from amqp_server.management.settings import decode_settings

    settings = decode_settings(line)
    if not is_child_of(settings.broker_pid):
        return 0

    import uvloop

    from amqp_server.base.child_reports import ReportHandler
    from amqp_server.management.server import serve

    logging.basicConfig(level=logging.INFO, handlers=[ReportHandler()], force=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    uvloop.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
