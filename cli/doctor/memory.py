"""Memory: what the process may use, against what the settings would have it use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from amqp_server.base.config import ServerConfig
from amqp_server.upkeep.resource_sensor import available_memory_bytes, watermark_bytes
from cli.display import rough_size
from cli.doctor.finding import Finding, error, ok, warning
from cli.unit_costs import BROKER_BYTES, MANAGEMENT_BYTES

SUBJECT: Final = "memory"
_MEMINFO: Final = Path("/proc/meminfo")


def check_memory(config: ServerConfig, meminfo: Path = _MEMINFO) -> Iterator[Finding]:
    """Yield whether the settings fit in the memory.

    Args:
        config: The settings.
        meminfo: File of the kernel with what is free.
    """
    usable = available_memory_bytes()
    watermark = watermark_bytes(config.memory_watermark)
    text = (
        f"{rough_size(usable)} may be used; publishers are blocked above {rough_size(watermark)} "
        "(--memory-watermark)"
    )
    full_rings = BROKER_BYTES + config.ring_bytes_total
    others = MANAGEMENT_BYTES if config.management_port or config.metrics_port else 0
    if watermark < BROKER_BYTES:
        yield error(
            SUBJECT,
            f"{text}; an empty broker has {rough_size(BROKER_BYTES)}",
            "more memory, or a higher --memory-watermark",
        )
        return
    if watermark + others > usable:
        yield warning(
            SUBJECT,
            f"{text}; with the management server's {rough_size(others)} that is all of it, and the "
            "kernel would end the process before publishers are blocked",
            "lower --memory-watermark",
        )
    elif watermark < full_rings:
        yield warning(
            SUBJECT,
            f"{text}; full rings would take {rough_size(full_rings)}",
            "more memory, or lower --ring-bytes-total",
        )
    else:
        yield ok(SUBJECT, text)
    free = _free_bytes(meminfo)
    if free is not None and free < min(watermark, full_rings) + others:
        yield warning(
            SUBJECT,
            f"only {rough_size(free)} are free now: other programs have the rest",
            "end some of them, or lower --memory-watermark and --ring-bytes-total",
        )


def _free_bytes(meminfo: Path) -> int | None:
    """Return the memory that a program could have without swapping; None if nobody tells."""
    try:
        lines = meminfo.read_text(encoding="ascii", errors="replace").splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return None
