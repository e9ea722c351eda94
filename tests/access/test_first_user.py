"""The user that a new data directory gets is one that can be."""

import pytest

from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.recovery.access_recovery import first_user


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "must have 1 to 255 bytes"),
        ("é" * 128, "must have 1 to 255 bytes"),
        ("\udcff", "must be UTF-8"),
    ],
)
def test_a_name_that_no_user_can_have_is_refused_with_its_option(name: str, reason: str) -> None:
    with pytest.raises(StartupError, match=f"--default-user: the name of a user {reason}"):
        first_user(ServerConfig(default_user=name))


def test_the_longest_name_is_one() -> None:
    assert first_user(ServerConfig(default_user="é" * 127 + "e")).name.endswith("ée")
