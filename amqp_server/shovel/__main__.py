"""The process of the shovels; only the broker starts it."""

from __future__ import annotations

import logging
import sys

from amqp_server.base.child_main import is_child_of, read_settings


def main() -> int:
    """Read the settings, then run the shovels until the broker ends.

    Returns:
        Exit code: 0.
    """
    line = read_settings()
    if not line:
        return 0
    from amqp_server.shovel.settings import decode_settings

    settings = decode_settings(line)
    if not is_child_of(settings.broker_pid):
        return 0

    import uvloop

    from amqp_server.base.child_reports import ReportHandler
    from amqp_server.shovel.workers import ShovelWorkers

    logging.basicConfig(level=logging.INFO, handlers=[ReportHandler()], force=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)

    async def serve() -> None:
        await ShovelWorkers(settings).serve()

    uvloop.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
