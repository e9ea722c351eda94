"""RabbitMQ's `rabbitmqadmin`, unmodified, prints the same with our API as with RabbitMQ's."""

from pathlib import Path

import trustme

from tests.management.conftest import StartManagementServer
from tests.management.tools import rabbitmqadmin_session as session
from tests.management.tools.api import Api

WANTED = {
    'declare policy name=wrong pattern=x definition={"nosuch":1}': "< is no &lt; outside of HTML",
    "publish exchange=nosuch routing_key=x payload=x": "404, as RabbitMQ 4 does",
    "-f raw_json -V other list queues name arguments": "the order of fields",
    "list parameters": "the order of fields",
    "get queue=stream": "with the name of the code, as all such texts",
}
"""Commands whose output differs on purpose, with the reason."""


def test_every_subcommand_prints_what_it_prints_with_rabbitmq(api: Api, tmp_path: Path) -> None:
    printed = session.run_session(api, tmp_path)

    found = {
        ours[0]
        for theirs, ours in zip(session.recorded(), printed, strict=True)
        if not session.is_same(theirs, ours)
    }
    assert found >= WANTED.keys()
    different = [
        f"{ours[0]}\n  RabbitMQ: {theirs[1:]}\n  ours:     {ours[1:]}"
        for theirs, ours in zip(session.recorded(), printed, strict=True)
        if not session.is_same(theirs, ours) and ours[0] not in WANTED
    ]
    assert not different, "\n".join(different)


def test_it_speaks_tls(start_management_server: StartManagementServer, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    chain, key, root = (tmp_path / name for name in ("chain.pem", "key.pem", "root.pem"))
    certificate.cert_chain_pems[0].write_to_path(chain)
    certificate.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(root)
    options = ("--management-tls-certificate", str(chain), "--management-tls-key", str(key))
    running = start_management_server("--management-tls-port", "-1", *options)
    line = running.server.wait_for_message("management server started")
    url = next(word for word in line.split() if word.startswith("https://")).rstrip("'")
    port = url.rpartition(":")[2]

    with session.tool(tmp_path) as run:
        broker = ["-s", "--ssl-ca-cert-file", str(root), "-H", "localhost", "-P", port]
        assert run([*broker, "declare", "queue", "name=orders"], "") == (0, "queue declared\n", "")
        assert run([*broker, "-f", "bash", "list", "queues"], "") == (0, "orders\n", "")
        status, _, _ = run(["-s", "-H", "localhost", "-P", port, "list", "queues"], "")
        assert status == 1, "a certificate that nobody has signed"
