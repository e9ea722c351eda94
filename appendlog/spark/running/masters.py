"""Masters of Spark: which URLs there are, whether one answers, and how it reaches this machine."""

import re
import socket
from typing import Final

from appendlog.spark.errors import MasterError

LOCAL: Final = "local"
STANDALONE: Final = "spark://"
PORT: Final = 7077
_MASTER: Final = re.compile(
    r"(?:local(?:\[(?:\d+|\*)(?:, *\d+)?\])?|yarn|(?:spark|k8s)://\S+|local-cluster\[.*\])\Z"
)
_CONNECT_SECONDS: Final = 5


def check_master(master: str) -> None:
    """Refuse what Spark would refuse only after seconds or minutes, and with a riddle.

    Raises:
        MasterError: The URL is none that Spark knows, or of Spark Connect, or no machine of a
            standalone cluster answers.
    """
    if master.startswith("sc://"):
        raise MasterError(f"{master}: Spark Connect cannot run this job; give the cluster's URL")
    if not _MASTER.match(master):
        raise MasterError(
            f"{master!r} is no master of Spark: write local[*], local[4], spark://host:port, "
            "yarn or k8s://url"
        )
    if master.startswith(STANDALONE):
        own_address(master)


def own_address(master: str) -> str:
    """Return the address of this machine on the way to a standalone master that answers.

    Executors connect back to the driver; the name of a machine often leads nowhere from there.

    Raises:
        MasterError: None of its machines answers.
    """
    failed = ""
    for place in master.removeprefix(STANDALONE).split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", str(PORT))
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS) as found:
                address: str = found.getsockname()[0]
                return address
        except (OSError, ValueError, OverflowError) as error:
            failed = str(getattr(error, "strerror", None) or error)
    raise MasterError(f"{master}: no master of Spark answers there: {failed}")
