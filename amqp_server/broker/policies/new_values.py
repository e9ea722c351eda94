"""Bounds of values that were not checked once: new policies keep them, stored ones may not.

A stored policy that passes one goes on as it was: a start that refused it would let no policy of
its virtual host count.

Source: RabbitMQ 4.2 `rabbit_policies`, 3.10 `rabbit_mirror_queue_misc` (mirrors, which have no
effect here) and `rabbit_queue_location_validator`; texts as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.base.erlang_text import erlang_text
from amqp_server.broker.declaring.queue_arguments import STREAM_SEGMENT_BYTES_MAX
from amqp_server.broker.policies.errors import InvalidPolicyError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIRRORS: Final = (
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-sync-batch-size",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
)
_MASTER_LOCATORS: Final = ("min-masters", "client-local", "random")
_PROMOTIONS: Final = ("always", "when-synced")


def check_new_values(definition: Mapping[str, object]) -> None:
    """Check the definition of a new policy, whose keys have values of the right kind.

    Raises:
        InvalidPolicyError: A value is out of bounds, or does not go with another.
    """
    segment = definition.get("stream-max-segment-size-bytes")
    if isinstance(segment, int) and segment > STREAM_SEGMENT_BYTES_MAX:
        raise InvalidPolicyError(f"{segment} is not a valid segment size")
    if "queue-master-locator" in definition:
        locator = definition["queue-master-locator"]
        if locator not in _MASTER_LOCATORS:
            raise InvalidPolicyError(f"{erlang_text(locator)} invalid queue-master-locator value")
    if any(name in definition for name in _MIRRORS):
        _check_mirrors(definition)


def _check_mirrors(definition: Mapping[str, object]) -> None:
    if "ha-mode" not in definition:
        raise InvalidPolicyError(
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
        )
    _check_mirror_params(definition)
    sync = definition.get("ha-sync-mode", "manual")
    if sync not in ("manual", "automatic"):
        raise InvalidPolicyError(
            f'ha-sync-mode must be "manual" or "automatic", got {erlang_text(sync)}'
        )
    size = definition.get("ha-sync-batch-size", 1)
    if type(size) is not int or size <= 0:
        raise InvalidPolicyError(
            f"ha-sync-batch-size takes an integer greater than 0, {erlang_text(size)} given"
        )
    for name in _MIRRORS[-2:]:
        promotion = definition.get(name, "always")
        if promotion not in _PROMOTIONS:
            raise InvalidPolicyError(
                f'{name} must be "always" or "when-synced", got {erlang_text(promotion)}'
            )


def _check_mirror_params(definition: Mapping[str, object]) -> None:
    is_given = "ha-params" in definition
    params = definition.get("ha-params")
    shown = erlang_text(params) if is_given else "none"
    match definition["ha-mode"]:
        case "all":
            if is_given:
                raise InvalidPolicyError('ha-mode="all" does not take parameters')
        case "exactly":
            if type(params) is not int or params <= 0:
                raise InvalidPolicyError(f'ha-mode="exactly" takes an integer, {shown} given')
        case _:
            _check_nodes(params, shown)


def _check_nodes(params: object, shown: str) -> None:
    if not isinstance(params, list):
        raise InvalidPolicyError(f'ha-mode="nodes" takes a list, {shown} given')
    if not params:
        raise InvalidPolicyError('ha-mode="nodes" list must be non-empty')
    wrong = [each for each in params if not isinstance(each, str)]
    if wrong:
        raise InvalidPolicyError(
            f'ha-mode="nodes" takes a list of strings, {erlang_text(wrong)} was not a string'
        )
