"""The section `policies`: this server has none yet, so that each one gets a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_plan import ImportPlan


class PoliciesPart:
    """Policies, which are checked for their names and left out."""

    section = "policies"

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Leave a policy out; see `Part`."""
        vhost = plan.vhost_of(entry)
        name = entry.short_text("name", may_be_empty=False)
        if plan.is_first(entry, (vhost.name, name)):
            plan.skip(entry, (vhost.name, name), f"policy '{name}': policies are not served")

    def export(self, _vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield nothing; see `Part`."""
        yield from ()
