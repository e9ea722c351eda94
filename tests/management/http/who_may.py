"""Who may ask which route, by path and not by code, as docs/management.md has it."""

from __future__ import annotations

from pathlib import Path

from amqp_server.management import resources
from amqp_server.management.broker_client import BrokerClient
from amqp_server.management.http.call import Tag
from amqp_server.management.http.parts import Parts
from amqp_server.management.http.routes import Route
from amqp_server.management.mirror import Mirror
from amqp_server.management.settings import ManagementSettings

TAGS = ("none", "management", "policymaker", "monitoring", "administrator")
FREE, ALL, POLICY, MONITOR, ADMIN = "everybody", "management", "policymaker", "monitoring", "admin"

WHO = {
    "/api/version": FREE,
    "/api/health/checks/is-in-service": FREE,
    "/api/health/checks/ready-to-serve-clients": FREE,
    "/api/health/checks/below-node-connection-limit": FREE,
    "/api/health/checks/reached-target-cluster-size": FREE,
    "/api/overview": ALL,
    "/api/whoami": ALL,
    "/api/vhosts": ALL,
    "/api/queues": ALL,
    "/api/queues/{vhost}": ALL,
    "/api/queues/{vhost}/{name}": ALL,
    "/api/queues/{vhost}/{name}/contents": ALL,
    "/api/exchanges": ALL,
    "/api/exchanges/{vhost}/{name}": ALL,
    "/api/connections": ALL,
    "/api/channels": ALL,
    "/api/consumers": ALL,
    "/api/health/checks/alarms": ALL,
    "/api/aliveness-test/{vhost}": ALL,
    "/api/vhosts/{vhost}/connections": ALL,
    "/api/extensions": ALL,
    "/api/policies": ALL,
    "/api/vhost-limits": ALL,
    "/api/user-limits": ADMIN,
    "/api/parameters": POLICY,
    "/api/global-parameters": POLICY,
    "/api/nodes": MONITOR,
    "/api/nodes/{node}": MONITOR,
    "/api/shovels": MONITOR,
    "/api/users": ADMIN,
    "/api/permissions": ADMIN,
    "/api/topic-permissions": ADMIN,
    "/api/vhosts/{vhost}": ADMIN,
    "/api/definitions": ADMIN,
    "/api/feature-flags": ADMIN,
    "/api/rebalance/queues": ADMIN,
    "/api/reset": ADMIN,
    "/api/queues/{vhost}/{name}/actions": ADMIN,
}
"""Who may ask a path, as RabbitMQ 3.10 was seen to answer: docs/management.md."""
MEMBERS = {
    FREE: TAGS,
    ALL: TAGS[1:],
    POLICY: ("policymaker", "administrator"),
    MONITOR: ("monitoring", "administrator"),
    ADMIN: ("administrator",),
}
DECLARED = {
    None: FREE,
    Tag.MANAGEMENT: ALL,
    Tag.POLICYMAKER: POLICY,
    Tag.MONITORING: MONITOR,
    Tag.ADMINISTRATOR: ADMIN,
}
REASONS = {
    ALL: "Not management user",
    POLICY: "User not authorised to access object",
    MONITOR: "Not monitor user",
    ADMIN: "Not administrator user",
}
HIDDEN_REASON = "User not authorised to access virtual host"


def known_routes() -> list[Route]:
    """Return the routes of the server, whose handlers are not called."""
    path = Path("nowhere")
    broker = BrokerClient(path)
    parts = Parts(Mirror(broker), broker, ManagementSettings(path, 0))
    return [route for route in resources.all_routes(parts) if route.path.startswith("/api/")]


def who_may(route: Route) -> str:
    """Return who may ask a route. What only shows a virtual host may say so by its path."""
    return WHO.get(route.path, DECLARED[route.requires])
