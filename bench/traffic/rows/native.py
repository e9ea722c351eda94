"""Native clients at full speed: one publisher, one consumer, a process each."""

from typing import Final

from bench.traffic.native.clients import CLIENTS, NativeClient
from bench.traffic.native.native_run import NativeRun
from bench.traffic.row import TrafficRow


def _row(client: NativeClient) -> TrafficRow:
    return TrafficRow(
        f"native-{client.name}",
        f"{client.name}: publisher with confirms ({client.waits}) and consumer (prefetch 200, an "
        "ack each), varied bodies and headers",
        NativeRun(client),
        try_missing=client.try_missing,
        family="native",
    )


ROWS: Final = tuple(_row(client) for client in CLIENTS)
