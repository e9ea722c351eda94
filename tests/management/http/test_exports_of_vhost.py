"""`/api/exports?vhost=`: what exports have done in one virtual host."""

from amqp_server.management.resources.exports import of_vhost
from appendlog.export_records import begin_record, end_record
from tests.management.conftest import ManagementServer


def test_exports_are_those_of_the_virtual_host(management_server: ManagementServer) -> None:
    assert management_server.put("/api/vhosts/team").status == 201
    assert management_server.put("/api/vhosts/other").status == 201
    path = management_server.storage_path
    identity = {"incarnation": "", "status": "exported", "end": 1, "rows": 1}
    for out, vhosts in (("both", ("/", "team")), ("root", ("/",)), ("empty", ())):
        settings = {"vhost": "team" if out == "empty" else "/"}
        record = begin_record(path, out, settings, 1)
        rows = [{"vhost": vhost, "queue": f"q of {vhost}", **identity} for vhost in vhosts]
        end_record(path, record, rows, 0, 2)

    def outputs(query: str) -> dict[str, list[str]]:
        exports = management_server.get(f"/api/exports{query}").json["exports"]
        return {each["out"]: [queue["vhost"] for queue in each["queues"]] for each in exports}

    assert outputs("") == {"both": ["/", "team"], "root": ["/"], "empty": []}
    assert outputs("?vhost=team") == {"both": ["team"], "empty": []}
    assert outputs("?vhost=%2F") == {"both": ["/"], "root": ["/"]}
    assert outputs("?vhost=other") == {}


def test_readers_are_those_of_the_virtual_host() -> None:
    readers = [{"vhost": "/", "queue": "a"}, {"vhost": "team", "queue": "b"}]

    assert of_vhost({"exports": [], "readers": readers}, "team")["readers"] == readers[1:]
