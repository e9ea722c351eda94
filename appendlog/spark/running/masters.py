"""URLs of Spark's masters: their check, cores of a local one, this machine's address for one."""

import os
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
_LOCAL_CORES: Final = re.compile(r"local(?:\[(\d+|\*)(?:, *\d+)?\])?\Z")
_CONNECT_SECONDS: Final = 5


def check_master(master: str) -> None:
    """Check the URL of a master: Spark takes minutes to refuse a wrong one, without a clear reason.

    Raises:
        MasterError: Spark does not know the URL, it is one of Spark Connect, or no machine of a
            standalone cluster answers.
    """
    check_master_text(master)
    if master.startswith(STANDALONE):
        own_address(master)


def check_master_text(master: str) -> None:
    """Check the URL of a master; reach for nothing.

    Raises:
        MasterError: Spark does not know the URL, or it is one of Spark Connect.
    """
    if master.startswith("sc://"):
        raise MasterError(f"{master}: Spark Connect cannot run this job; give the cluster's URL")
    if not _MASTER.match(master):
        raise MasterError(
            f"{master!r} is no master of Spark: write local[*], local[4], spark://host:port, "
            "yarn or k8s://url"
        )


def own_address(master: str) -> str:
    """Return the address with which this machine reaches a standalone master.

    Executors connect back to the driver, and often cannot resolve the name of its machine.

    Raises:
        MasterError: No machine of the master answers.
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


def local_cores(master: str) -> int | None:
    """Return how many tasks a local master runs at once, at least one; None for a cluster."""
    found = _LOCAL_CORES.match(master)
    if found is None:
        return None
    if found[1] == "*":
        return os.cpu_count() or 1
    return max(int(found[1] or 1), 1)
