"""Objects of clients, as tools find them: connections, channels, consumers, queues, the node."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from pamqp.commands import Basic, Connection

from tests.amqp_client import AmqpClient, connect
from tests.management.conftest import ManagementServer, StartManagementServer

NUMBERS = {
    "queue": (
        "messages messages_ready messages_unacknowledged messages_ram messages_persistent "
        "messages_paged_out messages_ready_ram messages_unacknowledged_ram message_bytes "
        "message_bytes_ready message_bytes_unacknowledged message_bytes_ram "
        "message_bytes_persistent message_bytes_paged_out consumers memory consumer_capacity "
        "reductions"
    ),
    "connection": (
        "channels channel_max frame_max timeout port peer_port connected_at recv_oct send_oct "
        "recv_cnt send_cnt send_pend"
    ),
    "channel": (
        "number consumer_count prefetch_count global_prefetch_count messages_unacknowledged "
        "messages_unconfirmed messages_uncommitted acks_uncommitted pending_raft_commands"
    ),
    "node": (
        "uptime processors run_queue mem_used mem_limit disk_free disk_free_limit fd_used fd_total "
        "sockets_used sockets_total proc_used proc_total net_ticktime io_read_count io_read_bytes "
        "io_read_avg_time io_write_count io_write_bytes io_write_avg_time io_sync_count "
        "io_sync_avg_time io_seek_count io_seek_avg_time gc_num gc_bytes_reclaimed "
        "context_switches mnesia_ram_tx_count msg_store_read_count queue_index_read_count "
        "connection_created channel_created queue_declared queue_created queue_deleted"
    ),
}
TEXTS = {
    "queue": "name vhost type node state",
    "connection": "name node user vhost protocol type state host peer_host auth_mechanism",
    "channel": "name node user vhost state",
    "node": "name type os_pid rates_mode db_dir mem_calculation_strategy rabbitmq_version",
}


def check(kind: str, found: dict[str, Any]) -> None:
    """Check that an object has what typed clients need, and nothing unset."""
    for name in NUMBERS[kind].split():
        assert isinstance(found.get(name), int | float), name
    for name in TEXTS[kind].split():
        assert isinstance(found.get(name), str), name
    assert None not in found.values()


@pytest.fixture
def client(management_server: ManagementServer) -> Iterator[AmqpClient]:
    """Connect a client that has published two messages and holds one of them."""
    with connect(("127.0.0.1", management_server.amqp_port)) as client:
        client.open_channel(1, confirms=True)
        client.declare("work")
        for _ in range(2):
            client.publish(b"hello", "work")
        client.expect_confirmed()
        client.open_channel(2)
        client.consume("work", prefetch=1, channel=2)
        client.expect_delivery(2)
        yield client


@pytest.mark.usefixtures("client")
def test_what_a_client_does_is_shown_at_once(management_server: ManagementServer) -> None:
    server = management_server
    queue = server.get("/api/queues/%2F/work").json
    check("queue", queue)
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (
        2,
        1,
        1,
    )
    assert queue["message_stats"]["publish"] == 2
    assert queue["message_stats"]["deliver_get"] == 1
    (held,) = queue["consumer_details"]
    assert held["queue"] == {"name": "work", "vhost": "/"}
    assert (held["prefetch_count"], held["ack_required"], held["active"]) == (1, True, True)
    (incoming,) = queue["incoming"]
    assert incoming["exchange"] == {"name": "", "vhost": "/"}
    assert incoming["stats"] == {"publish": 2, "publish_details": {"rate": 0.0}}
    (delivered,) = queue["deliveries"]
    assert delivered["channel_details"]["number"] == 2
    assert (delivered["stats"]["deliver"], delivered["stats"]["ack"]) == (1, 0)

    (connection,) = server.get("/api/connections").json
    check("connection", connection)
    path = f"/api/connections/{quote(connection['name'], safe='')}"
    assert server.get(path).json["name"] == connection["name"]
    assert server.get("/api/vhosts/%2F/connections").json[0]["name"] == connection["name"]
    expected = {key: connection[key] for key in ("name", "vhost", "user", "node")}
    assert server.get("/api/connections/username/guest").json == [expected]

    first, second = server.get(f"{path}/channels").json
    check("channel", first)
    assert [first["name"], second["name"]] == [f"{connection['name']} ({n})" for n in (1, 2)]
    assert (first["confirm"], second["confirm"]) == (True, False)
    assert first["connection_details"]["name"] == connection["name"]
    assert first["message_stats"]["publish"] == 2
    one = server.get(f"/api/channels/{quote(second['name'], safe='')}").json
    assert one["consumer_details"][0]["consumer_tag"] == held["consumer_tag"]
    assert one["publishes"] == []
    (taken,) = one["deliveries"]
    assert taken == {"stats": delivered["stats"], "queue": {"name": "work", "vhost": "/"}}
    publisher = server.get(f"/api/channels/{quote(first['name'], safe='')}").json
    (published,) = publisher["publishes"]
    assert published["exchange"] == {"name": "", "vhost": "/"}
    assert (published["stats"]["publish"], published["stats"]["confirm"]) == (2, 2)
    exchange = server.get("/api/exchanges/%2F/amq.default").json
    (source,) = exchange["incoming"]
    assert source["stats"] == published["stats"]
    assert source["channel_details"]["name"] == first["name"]
    (target,) = exchange["outgoing"]
    assert target == {"stats": incoming["stats"], "queue": {"name": "work", "vhost": "/"}}

    (consumer,) = server.get("/api/consumers/%2F").json
    assert consumer["channel_details"]["name"] == second["name"]
    assert isinstance(consumer["consumer_timeout"], int)


@pytest.mark.usefixtures("client")
def test_the_overview_has_the_totals(management_server: ManagementServer) -> None:
    found = management_server.get("/api/overview").json

    totals = found["object_totals"]
    assert totals.pop("exchanges") >= 7
    assert totals == {"connections": 1, "channels": 2, "queues": 1, "consumers": 1}
    assert found["queue_totals"]["messages"] == 2
    assert found["message_stats"]["publish"] == 2
    assert found["churn_rates"]["connection_created"] == 1
    assert found["rabbitmq_version"].split(".")[0] in ("3", "4")
    protocols = {each["protocol"]: each["port"] for each in found["listeners"]}
    assert protocols["amqp"] == management_server.amqp_port
    assert {"http", "http/prometheus"} < protocols.keys()

    management_server.add_user("small", "management", vhosts=["/"])
    limited = management_server.get("/api/overview", user="small").json
    assert limited["queue_totals"]["messages"] == 2
    assert limited["message_stats"]["publish"] == 2
    assert limited["object_totals"]["connections"] == 0, "only its own"
    assert not {"listeners", "node", "contexts"} & limited.keys()


def test_the_node_has_what_tools_look_for(management_server: ManagementServer) -> None:
    (node,) = management_server.get("/api/nodes").json

    check("node", node)
    assert node["name"].startswith("rabbit@")
    assert node["running"] is True
    assert "rabbit" in {each["name"] for each in node["applications"]}
    one = management_server.get(f"/api/nodes/{node['name']}?memory=true").json
    assert one["memory"]["strategy"] == "rss"
    memory = management_server.get(f"/api/nodes/{node['name']}/memory").json["memory"]
    assert set(memory["total"]) == {"erlang", "rss", "allocated"}
    assert management_server.get("/api/nodes/other").status == 404


def test_a_closed_connection_gets_the_reason(
    management_server: ManagementServer, client: AmqpClient
) -> None:
    server = management_server
    server.add_user("other", "monitoring", vhosts=["/"])
    (name,) = [each["name"] for each in server.get("/api/connections").json]
    path = f"/api/connections/{quote(name, safe='')}"
    refused = server.delete(path, user="other")
    assert (refused.status, refused.json["reason"]) == (401, "User not authorised to access object")

    # The connection is closed when the client has answered.
    closes: list[Connection.Close] = []
    reader = threading.Thread(target=lambda: closes.append(client.expect_connection_close(320)))
    reader.start()
    assert server.delete(path, headers={"X-Reason": "maintenance at noon"}).status == 204
    reader.join()

    assert "maintenance at noon" in str(closes[0].reply_text)
    assert server.delete(path).status == 404
    assert server.delete("/api/connections/username/guest").status == 204


def test_a_queue_is_deleted_only_under_the_conditions(
    management_server: ManagementServer, client: AmqpClient
) -> None:
    server, path = management_server, "/api/queues/%2F/work"
    used = server.delete(f"{path}?if-unused=true")
    full = server.delete(f"{path}?if-empty=true")

    assert (used.status, used.json["error"]) == (400, "bad_request")
    assert used.json["reason"] == "queue 'work' in vhost '/' in use"
    assert full.json["reason"] == "queue 'work' in vhost '/' not empty"
    assert server.delete(f"{path}/contents").status == 204
    assert server.get(path).json["messages_ready"] == 0
    client.send(Basic.Ack(1), 2)
    assert server.post(f"{path}/actions", {"action": "sync"}).status == 204
    assert server.post(f"{path}/actions", {"action": "x"}).status == 400
    assert server.delete(path).status == 204
    assert server.delete(path).status == 404


def test_an_exchange_is_declared_and_deleted(management_server: ManagementServer) -> None:
    server, path = management_server, "/api/exchanges/%2F/events"
    body = {"type": "topic", "durable": "true", "arguments": {"alternate-exchange": "rest"}}

    assert server.put(path, body).status == 201
    assert server.put(path, body).status == 204
    found = server.get(path).json
    assert (found["type"], found["durable"], found["internal"]) == ("topic", True, False)
    assert found["arguments"] == {"alternate-exchange": "rest"}
    assert (found["incoming"], found["outgoing"]) == ([], [])
    other = server.put(path, {"type": "fanout"})
    assert (other.status, other.json["error"]) == (400, "bad_request")
    assert other.json["reason"].startswith("inequivalent arg 'type' for exchange 'events'")
    assert server.delete(path).status == 204
    assert server.get("/api/exchanges/%2F/amq.default").json["name"] == ""


def test_health_checks_say_what_is_wrong(start_management_server: StartManagementServer) -> None:
    server = start_management_server("--disk-free-limit", "1024TiB")
    base = "/api/health/checks"

    for name, where in (("alarms", "in the cluster"), ("local-alarms", "on the node")):
        reply = server.get(f"{base}/{name}")
        assert (reply.status, reply.json["status"]) == (503, "failed")
        assert reply.json["reason"] == f"There are alarms in effect {where}"
        assert [each["resource"] for each in reply.json["alarms"]] == ["disk"]
    (node,) = server.get("/api/nodes").json
    assert node["disk_free_alarm"] is True


def test_the_health_check_of_virtual_hosts_names_a_damaged_document(
    start_management_server: StartManagementServer,
) -> None:
    server = start_management_server()
    fields = {"pattern": "^q$", "definition": {"max-length": 5}}
    assert server.put("/api/policies/%2F/orders", fields).status == 201
    server.server.terminate()
    document = server.storage_path / "metadata" / "policies" / "%2f" / "orders.json"
    document.write_bytes(document.read_bytes()[:-9])
    server.server.may_fail = True
    server.server.start()
    server.read_addresses()
    reply = server.get("/api/health/checks/virtual-hosts")
    assert (reply.status, reply.json["status"]) == (503, "failed")
    assert "policy orders of vhost '/'" in reply.json["reason"]
    assert "every queue and exchange" in reply.json["reason"]
    assert server.delete("/api/policies/%2F/orders").status == 204
    assert server.get("/api/health/checks/virtual-hosts").status == 200


def test_health_checks_of_listeners_and_certificates(
    shared_management_server: ManagementServer,
) -> None:
    server, base = shared_management_server, "/api/health/checks"
    port = server.amqp_port

    assert server.get(f"{base}/alarms").json == {"status": "ok"}
    assert server.get(f"{base}/port-listener/{port}").json == {"status": "ok", "port": port}
    missing = server.get(f"{base}/port-listener/1")
    assert missing.status == 503
    assert missing.json["reason"] == "No active listener"
    assert (missing.json["missing"], port in missing.json["ports"]) == (1, True)
    for text in ("x", "0", "65536", "99999999999"):
        reply = server.get(f"{base}/port-listener/{text}")
        assert (reply.status, reply.json["reason"]) == (400, "Invalid port")
    assert server.get(f"{base}/protocol-listener/amqp091").status == 200
    assert server.get(f"{base}/protocol-listener/amqp,http").status == 200
    reply = server.get(f"{base}/protocol-listener/mqtt")
    assert (reply.status, reply.json["missing"]) == (503, "mqtt")
    assert server.get(f"{base}/certificate-expiration/1/weeks").status == 200
    assert server.get(f"{base}/certificate-expiration/x/weeks").status == 400
    assert server.get(f"{base}/certificate-expiration/1/moons").status == 400
    for name in ("virtual-hosts", "node-is-quorum-critical", "is-in-service"):
        assert server.get(f"{base}/{name}").json["status"] == "ok"
    assert server.get("/api/aliveness-test/%2F").json == {"status": "ok"}
    assert server.get("/api/aliveness-test/none").status == 404
    assert server.get("/api/healthchecks/node").json == {"status": "ok"}


def test_a_list_is_made_once_a_second_if_it_is_costly_and_never_after_a_change(
    management_server: ManagementServer,
) -> None:
    declared = {"durable": False, "auto_delete": False, "arguments": {}}
    for number in range(700):
        management_server.ask("queues.declare", vhost="/", name=f"q{number}", **declared)
    management_server.get("/api/queues")
    management_server.put("/api/queues/%2F/new")

    assert "new" in {each["name"] for each in management_server.get("/api/queues").json}
    management_server.delete("/api/queues/%2F/new")
    assert "new" not in {each["name"] for each in management_server.get("/api/queues").json}


def test_a_server_keeps_its_cluster_id(management_server: ManagementServer) -> None:
    server = management_server

    def shown() -> str:
        page = server.get("/metrics", user=None, url=server.metrics_url).body.decode()
        return page.partition('rabbitmq_cluster_permanent_id="')[2].partition('"')[0]

    before = shown()
    assert re.fullmatch(r"rabbitmq-cluster-id-[\w-]{22}", before)
    found = server.get("/api/global-parameters/internal_cluster_id").json
    assert found == {"name": "internal_cluster_id", "value": before}

    assert server.server.terminate() == 0
    server.server.start()
    server.read_addresses()
    assert shown() == before


def test_the_parts_of_the_memory_are_all_of_it(management_server: ManagementServer) -> None:
    server = management_server
    assert server.put("/api/queues/%2F/q", {"durable": True}).status == 201
    node = server.get("/api/overview").json["node"]

    def parts() -> dict[str, int]:
        memory = server.get(f"/api/nodes/{node}/memory").json["memory"]
        used = memory.pop("total")["rss"]
        assert memory.pop("strategy") == "rss"
        assert sum(memory.values()) == used
        return dict(memory)

    before = parts()
    assert before["other_proc"] > 0
    assert before["binary"] < 100_000
    with connect(("127.0.0.1", server.amqp_port)) as client:
        client.open_channel(1, confirms=True)
        for _ in range(4):
            client.publish(bytes(50_000), "q")
            client.expect_confirmed()
        assert 200_000 <= parts()["binary"] < 400_000
    page = server.get("/metrics/memory-breakdown", user=None, url=server.metrics_url).body.decode()
    lines = [line.split() for line in page.splitlines() if line.startswith("rabbitmq_memory_")]
    used = server.get(f"/api/nodes/{node}").json["mem_used"]
    # It is measured each second.
    assert sum(float(number) for _, number in lines) == pytest.approx(used, rel=0.2)


def test_a_monitor_sees_what_clients_of_others_do_and_other_users_their_own(
    management_server: ManagementServer,
) -> None:
    server = management_server
    server.add_user("watcher", "monitoring")
    server.add_user("owner", "management", vhosts=["/"])
    with connect(("127.0.0.1", server.amqp_port), user="owner", password="owner") as client:
        client.open_channel()
        port = client.socket.getsockname()[1]
        (name,) = (
            each["name"]
            for each in server.get("/api/connections").json
            if each["peer_port"] == port
        )
        paths = [
            "/api/connections",
            f"/api/connections/{quote(name)}",
            f"/api/connections/{quote(name)}/channels",
            "/api/channels",
            f"/api/channels/{quote(f'{name} (1)')}",
            "/api/vhosts/%2F/connections",
            "/api/vhosts/%2F/channels",
        ]
        seen = {
            user: [name in server.get(path, user=user).body.decode() for path in paths]
            for user in ("owner", "watcher", "guest")
        }
        server.add_user("stranger", "management", vhosts=["/"])
        hidden = [name in server.get(path, user="stranger").body.decode() for path in paths]

    assert seen["owner"] == seen["guest"] == [True] * len(paths)
    # A monitor without a permission in a virtual host does not see what is below its path.
    assert seen["watcher"] == [True] * 5 + [False] * 2
    assert hidden == [False] * len(paths)
