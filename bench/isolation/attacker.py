"""The process of the attacker."""

import gc
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.broker_url import BrokerUrl
from bench.isolation.attack import Attack, Stage


@dataclass(frozen=True, slots=True)
class AttackTimes:
    """Start and end of an attack.

    Attributes:
        began_ns: Time before the first byte (`time.monotonic_ns`).
        ended_ns: Time when the end was observed.
        cpu_seconds: CPU that the attacker used.
    """

    began_ns: int
    ended_ns: int
    cpu_seconds: float

    @property
    def seconds(self) -> float:
        """Duration of the attack."""
        return (self.ended_ns - self.began_ns) / 1e9


def attack_broker(
    url: BrokerUrl, attack: Attack, numbers: Mapping[str, int], seconds_max: float
) -> Iterator[AttackTimes | None]:
    """Set up and report None; attack and report the times; then disconnect.

    Args:
        url: The broker.
        attack: Attack to run.
        numbers: Arguments of `Attack.run`.
        seconds_max: Longest time without an answer.
    """
    with Stage(url, seconds_max) as stage:
        steps = attack.run(stage, **numbers)
        next(steps)
        gc.collect()
        yield None
        cpu_seconds = time.process_time()
        stage.begin()
        for _ in steps:
            raise AssertionError(f"{attack.name} yields twice")
        ended_ns = time.monotonic_ns()
        yield AttackTimes(stage.began_ns, ended_ns, time.process_time() - cpu_seconds)
