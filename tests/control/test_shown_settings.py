"""`settings.list` shows what is in effect, and no secret."""

from __future__ import annotations

from pathlib import Path

from amqp_server.control.client import ask
from tests.threaded_server import ThreadedServer


def test_the_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    with ThreadedServer(
        tmp_path,
        default_password="secret too",
        auth_http_user_path="https://me:secret@127.0.0.1:1/user?at=home",
        auth_oauth2_jwks_uri="https://127.0.0.1:1/keys/@me",
    ):
        shown = ask(tmp_path, "settings.list")
    assert "secret" not in str(shown)
    assert shown["auth_http_user_path"] == "https://***@127.0.0.1:1/user?at=home"
    assert shown["auth_oauth2_jwks_uri"] == "https://127.0.0.1:1/keys/@me"
