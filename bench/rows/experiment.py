"""An experiment: what is run against each broker to fill one row of the table or several."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.rows.effort import Effort
from bench.rows.row import Row
from bench.startable_broker import StartableBroker


@dataclass(frozen=True, slots=True)
class Findings:
    """What one run of an experiment against one broker gave.

    Attributes:
        values: The figure of each row, by the row's key, in the row's unit; a row of the
            experiment that is missing here is shown as unknown.
        lost: Messages lost, repeated or left behind. The figures count only when it is 0.
        others_cores: Cores busy with neither server nor generator meanwhile; None when unknown.
        details: Whatever else is worth keeping; goes into the JSON, and must fit there.
    """

    values: Mapping[str, float]
    lost: int = 0
    others_cores: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        name: What it is called in progress and JSON.
        rows: The rows that one run of it fills.
        run: Runs it once against a broker; warms up itself, leaves no queue or exchange behind.
            Raises `BenchError` or `OSError` when there is no figure.
        seconds: How long one run against our server takes at full effort, warm-up included.
        rabbitmq_seconds: The same against RabbitMQ; None to leave RabbitMQ out, for rows without a
            ratio.
        rabbitmq_share: What part of the counts RabbitMQ gets (`Effort.count`), more than 0 to 1.
        runs_max: Most runs that make sense, for what takes long and hardly varies.
        is_in_quick: Whether the quick table has it.
    """

    name: str
    rows: tuple[Row, ...]
    run: Callable[[StartableBroker, Effort], Findings]
    seconds: float
    rabbitmq_seconds: float | None = None
    rabbitmq_share: float = 0.1
    runs_max: int | None = None
    is_in_quick: bool = True
