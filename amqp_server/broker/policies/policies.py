"""Sets and clears policies, and applies them to the queues and exchanges that live already.

A change is first written to the disk, then applied in steps between which clients are served. A
queue or exchange that is declared during that time gets the new policies at once, from its virtual
host.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from amqp_server.broker.job import done_in_turns
from amqp_server.broker.policies.errors import (
    NoSuchPolicyError,
    NoSuchPolicyVhostError,
    TooManyPoliciesError,
)
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.broker.policies.unknown_policy import (
    UNKNOWN_MAX,
    settings_with_policy,
    storage_with_policy,
)
from amqp_server.broker.policies.validation import policy_from_json
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterator,
        Mapping,
        Sequence,
    )

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.policies.policy import Policy
    from amqp_server.broker.policies.vhost_policies import VhostPolicies
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost

logger = logging.getLogger("amqp_server.broker.policies.policies")

POLICIES_MAX: Final = 1000
"""Policies of one virtual host and kind: a declare compares its name with all of them."""
_TTL: Final = "message-ttl"
_RECORDED: Final = ("pattern", "apply-to", "priority", "definition")
"""Details of a policy in the audit log."""


class Policies:
    """Makes one change at a time. The event loop owns it.

    A change runs to its end even if its caller is cancelled.

    Args:
        broker: Broker with the virtual hosts.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.
    """

    def __init__(
        self, broker: Broker, spawn: Callable[[Coroutine[None, None, None]], None]
    ) -> None:
        self._broker = broker
        self._spawn = spawn
        self._one_at_a_time = asyncio.Lock()
        self._loading: set[Queue] = set()
        # Virtual hosts whose queues do not have all policies yet that others have saved.
        self._stale: set[VirtualHost] = set()

    async def parse(
        self, fields: Mapping[str, object], kind: PolicyKind = PolicyKind.USER
    ) -> Policy:
        """Return a checked policy of JSON values, for `set`; see `policy_from_json`.

        A worker thread compiles the pattern.

        Raises:
            InvalidPolicyError: A value is missing or not valid.
        """
        return await asyncio.to_thread(policy_from_json, fields, kind)

    def list(
        self, vhost: str | None = None, kind: PolicyKind = PolicyKind.USER
    ) -> list[tuple[str, Policy]]:
        """Return the policies of a kind with their virtual hosts, by virtual host and name.

        Args:
            vhost: Virtual host; None for all.
            kind: Whose policies.

        Raises:
            NoSuchPolicyVhostError: There is no such virtual host.
        """
        names = sorted(self._broker.vhosts) if vhost is None else [vhost]
        return [
            (name, policy)
            for name in names
            for _, policy in sorted(self._vhost(name).policies.of(kind).items())
        ]

    def get(self, vhost: str, name: str, kind: PolicyKind = PolicyKind.USER) -> Policy:
        """Return one policy.

        Raises:
            NoSuchPolicyError: The virtual host has none of this kind and name.
            NoSuchPolicyVhostError: There is no such virtual host.
        """
        policy = self._vhost(vhost).policies.of(kind).get(name)
        if policy is None:
            raise no_such_policy(vhost, name, kind)
        return policy

    async def set(self, vhost: str, policy: Policy, kind: PolicyKind = PolicyKind.USER) -> bool:
        """Add a policy, or replace that of its name; return whether it is new.

        Returns when it is durable and applied. A queue whose messages are still being loaded after
        a start gets it when they are.

        Raises:
            NoSuchPolicyVhostError: There is no such virtual host.
            TooManyPoliciesError: The virtual host has as many policies as allowed.
            MetadataError: The disk refused; nothing was changed.
        """
        is_new = policy.name not in self._vhost(vhost).policies.of(kind)
        await self.set_all(vhost, (policy,), kind)
        return is_new

    async def set_all(
        self, vhost: str, policies: Sequence[Policy], kind: PolicyKind = PolicyKind.USER
    ) -> None:
        """Add or replace several policies of one virtual host; they are applied together.

        Args:
            vhost: Virtual host of the policies.
            policies: Policies with different names.
            kind: Whose policies.

        Raises:
            NoSuchPolicyVhostError: There is no such virtual host.
            TooManyPoliciesError: The virtual host has as many policies as allowed.
            MetadataError: The disk refused; nothing was changed.
        """
        await self._finish(self._set(vhost, policies, kind))

    async def clear(self, vhost: str, name: str, kind: PolicyKind = PolicyKind.USER) -> None:
        """Remove a policy; return when that is durable and applied.

        Raises:
            NoSuchPolicyError: The virtual host has none of this kind and name.
            NoSuchPolicyVhostError: There is no such virtual host.
            MetadataError: The disk refused; nothing was changed.
        """
        await self._finish(self._clear(vhost, name, kind))

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Let nothing be changed during the block but by the block itself."""
        async with self._one_at_a_time:
            yield

    def dated(self, vhost: str, policy: Policy, kind: PolicyKind = PolicyKind.USER) -> Policy:
        """Return a policy as it is to be saved, for a caller that writes its document itself.

        Args:
            vhost: Virtual host of the policy; it need not exist yet.
            policy: Policy to save.
            kind: Whose policy it is.
        """
        host = self._broker.vhosts.get(vhost)
        before = None if host is None else host.policies.of(kind).get(policy.name)
        return _dated(policy, before, self._broker.turn.clock.time_ns())

    def take_saved(
        self, vhost: str, policies: Sequence[Policy], kind: PolicyKind = PolicyKind.USER
    ) -> None:
        """Take policies whose documents (`policy_document`) the caller has written.

        New queues and exchanges have them when this returns. Others get them in the background;
        calls of the same time share that work.

        Args:
            vhost: Virtual host of the policies.
            policies: What `dated` returned.
            kind: Whose policies.

        Raises:
            NoSuchPolicyVhostError: There is no such virtual host.
        """
        host = self._vhost(vhost)
        host.policies.put(kind, policies)
        self._record_set(vhost, policies, kind)
        if host not in self._stale:
            self._stale.add(host)
            self._spawn(self._apply_saved(host))

    def unknown(self) -> Sequence[str]:
        """Return path and consequence of each damaged document, `UNKNOWN_MAX` at most."""
        found = (
            f"{unknown.path}: {unknown.consequence(vhost.name)}"
            for vhost in self._broker.vhosts.values()
            for _, _, unknown in vhost.policies.damaged
        )
        return tuple(islice(found, UNKNOWN_MAX))

    async def until_done(self) -> None:
        """Return when the changes that are under way now have ended."""
        async with self._one_at_a_time:
            pass

    async def _finish(self, change: Awaitable[None]) -> None:
        task = asyncio.ensure_future(change)
        self._spawn(_end_of(task))
        await asyncio.shield(task)

    async def _set(self, vhost: str, policies: Sequence[Policy], kind: PolicyKind) -> None:
        async with self._one_at_a_time:
            host = self._vhost(vhost)
            known = host.policies.of(kind)
            count = len(known.keys() | {policy.name for policy in policies})
            if count > max(POLICIES_MAX, len(known)):
                raise TooManyPoliciesError(
                    f"cannot set {kind.value} '{policies[-1].name}': limit ({POLICIES_MAX}) in "
                    f"vhost '{vhost}' is reached"
                )
            now_ns = self._broker.turn.clock.time_ns()
            dated = [_dated(policy, known.get(policy.name), now_ns) for policy in policies]
            await self._save(vhost, dated, kind, known)
            host.policies.put(kind, dated)
            self._record_set(vhost, dated, kind)
            await self._apply(host)

    async def _save(
        self,
        vhost: str,
        policies: Sequence[Policy],
        kind: PolicyKind,
        known: Mapping[str, Policy],
    ) -> None:
        definitions = self._broker.definitions
        saves = [definitions.save_policy(vhost, policy, kind) for policy in policies]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        if not failures:
            return
        # Any of the documents may be on the disk, where a restart would find it.
        for policy in policies:
            with suppress(MetadataError):
                before = known.get(policy.name)
                if before is None:
                    await definitions.remove_policy(vhost, policy.name, kind)
                else:
                    await definitions.save_policy(vhost, before, kind)
        raise failures[0]

    async def _clear(self, vhost: str, name: str, kind: PolicyKind) -> None:
        async with self._one_at_a_time:
            host = self._vhost(vhost)
            policy = host.policies.of(kind).get(name)
            if policy is None and not host.policies.is_damaged(kind, name):
                raise no_such_policy(vhost, name, kind)
            definitions = self._broker.definitions
            try:
                await definitions.remove_policy(vhost, name, kind)
            except MetadataError:
                # Of a damaged policy the document says nothing, whether it is there or not.
                with suppress(MetadataError):
                    if policy is not None:
                        await definitions.save_policy(vhost, policy, kind)
                raise
            host.policies.remove(kind, name)
            self._record("cleared", vhost, name, kind)
            await self._apply(host)

    async def _apply_saved(self, host: VirtualHost) -> None:
        async with self._one_at_a_time:
            self._stale.discard(host)
            await self._apply(host)

    def _record_set(self, vhost: str, policies: Sequence[Policy], kind: PolicyKind) -> None:
        for policy in policies:
            shown = policy.as_json(vhost)
            details = {key: shown[key] for key in _RECORDED}
            self._record("set", vhost, policy.name, kind, details)

    def _record(
        self,
        action: str,
        vhost: str,
        name: str,
        kind: PolicyKind,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Record a change in the audit log."""
        event = f"{kind.value.replace(' ', '_')}.{action}"
        self._broker.audit.record(event, vhost=vhost, name=name, details=details)

    async def _apply(self, host: VirtualHost) -> None:
        turn = self._broker.turn
        steps = self._steps(host)
        await done_in_turns(turn, turn.upkeep, steps, f"policies of vhost {host.name!r}")

    def _steps(self, host: VirtualHost) -> Iterator[None]:
        """Give each queue and exchange of a virtual host what its policies give, one in a step."""
        for queue in list(host.queues.values()):
            try:
                self._apply_to(queue, host.policies)
            except Exception:
                # An error in one queue must not keep the others from their policies.
                logger.exception("policy not applied queue=%s vhost=%s", queue.name, host.name)
            yield
        for exchange in list(host.exchanges.values()):
            policy = host.policies.for_exchange(exchange.name)
            if policy != exchange.policy and not exchange.is_deleted:
                host.change_policy(exchange, policy)
            yield

    def _apply_to(self, queue: Queue, policies: VhostPolicies) -> None:
        if queue.is_deleted:
            return
        if queue.loading.is_loading:
            if queue not in self._loading:
                self._loading.add(queue)
                self._spawn(self._apply_when_loaded(queue, policies))
            return
        kind = queue.settings.type
        policy = policies.for_queue(queue.name, kind)
        if policy == queue.policy:
            return
        before = queue.policy
        changed = (policy.definition, policy.is_unknown) != (before.definition, before.is_unknown)
        queue.policy = policy
        queue.has_new_attributes = True
        queue.mark_changed()
        if changed:
            settings = settings_with_policy(queue.arguments, kind, policy)
            kept = storage_with_policy(self._broker.storage, queue.arguments, kind, policy)
            if settings != queue.settings or kept != queue.storage_settings:
                self._broker.change_settings(queue, settings, kept)

    async def _apply_when_loaded(self, queue: Queue, policies: VhostPolicies) -> None:
        """Wait for the messages of a queue: the new settings may need attributes of all of them."""
        await queue.loading.until_loaded()
        self._loading.discard(queue)
        if not (queue.loading.is_loading or queue.is_draining):
            self._apply_to(queue, policies)

    def _vhost(self, name: str) -> VirtualHost:
        vhost = self._broker.vhosts.get(name)
        if vhost is None:
            raise NoSuchPolicyVhostError(f"vhost '{name}' does not exist")
        return vhost


def no_such_policy(vhost: str, name: str, kind: PolicyKind) -> NoSuchPolicyError:
    """Return the error for a policy that a virtual host does not have."""
    return NoSuchPolicyError(f"{kind.value} '{name}' does not exist in vhost '{vhost}'")


def _dated(policy: Policy, before: Policy | None, now_ns: int) -> Policy:
    """Return a policy with the time since when its lifetime of messages holds."""
    if _TTL not in policy.definition:
        return policy.with_ttl_since(0)
    is_same = (
        before is not None
        and before.pattern == policy.pattern
        and before.apply_to is policy.apply_to
        and before.definition.get(_TTL) == policy.definition[_TTL]
    )
    return policy.with_ttl_since(before.ttl_since_ns if is_same and before else now_ns)


async def _end_of(task: asyncio.Task[None]) -> None:
    """Return when a task has ended; its caller gets the result."""
    await asyncio.wait([task])
