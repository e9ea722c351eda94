"""Rules of every path of the API."""

from tests.management.conftest import ManagementServer


def test_a_path_that_does_not_exist_is_404_without_a_login(
    shared_management_server: ManagementServer,
) -> None:
    reply = shared_management_server.get("/api/nosuch", user=None)

    assert reply.status == 404
    assert reply.json == {"error": "Object Not Found", "reason": "Not Found"}


def test_a_method_that_a_path_does_not_have_is_405(
    shared_management_server: ManagementServer,
) -> None:
    reply = shared_management_server.request("PATCH", "/session", user=None)

    assert (reply.status, reply.body) == (405, b"")
    assert reply.headers["allow"] == "HEAD, GET, POST, DELETE, OPTIONS"
