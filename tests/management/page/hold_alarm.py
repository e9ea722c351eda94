"""Keeps the alarm for disk space on, or lets it go: `DATA_DIRECTORY on|off`."""

import sys
from pathlib import Path

from amqp_server.control.client import ask

if __name__ == "__main__":
    ask(Path(sys.argv[1]), "alarms.hold", resource="disk", is_on=sys.argv[2] == "on")
