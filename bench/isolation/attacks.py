"""All attacks, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bench.isolation.attack import Attack
from bench.isolation.body_attacks import BODY_ATTACKS
from bench.isolation.definition_attacks import DEFINITION_ATTACKS
from bench.isolation.login_attacks import LOGIN_ATTACKS
from bench.isolation.routing_attacks import ROUTING_ATTACKS
from bench.isolation.settling_attacks import SETTLING_ATTACKS

ATTACKS: Final[Mapping[str, Attack]] = MappingProxyType(
    {
        attack.name: attack
        for attack in (
            *ROUTING_ATTACKS,
            *SETTLING_ATTACKS,
            *DEFINITION_ATTACKS,
            *BODY_ATTACKS,
            *LOGIN_ATTACKS,
        )
    }
)
