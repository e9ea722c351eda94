"""Rows of queues, connections and so on, from the command `management.changes`."""

from __future__ import annotations

from cli.rabbitmq_tools.values import Pid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

    Row = dict[str, Any]


def rows_of(call: Call, kind: str) -> list[Row]:
    """Return all objects of a kind, each with its `pid`.

    Args:
        call: Asks the server.
        kind: `vhosts`, `exchanges`, `queues`, `connections`, `channels` or `consumers`.
    """
    return rows_and_state(call, kind)[0]


def rows_and_state(call: Call, *kinds: str) -> tuple[list[Row], Row]:
    """Return all objects of some kinds, and the state of the server.

    The process id of an object has the second in which the server started, so one of an earlier
    run names nothing.
    """
    reports = call.server.parts("management.changes", {"since": 0, "kinds": list(kinds)})
    rows: list[Row] = []
    run = 0
    while True:
        try:
            report = next(reports)
        except StopIteration as end:
            return rows, end.value
        run = report.get("run", run)
        for number, attributes, *values in report.get("rows", ()):
            row = {**attributes, **dict(zip(report["columns"], values, strict=True))}
            row["pid"] = Pid(f"<{call.node}.{run // 1000}.{number}.0>")
            for name in [name for name in row if name.endswith("_base64")]:
                row.setdefault(name.removesuffix("_base64"), _octets(row[name]))
            rows.append(row)


def _octets(encoded: str) -> str:
    import base64

    return base64.b64decode(encoded).decode("utf-8", "replace")
