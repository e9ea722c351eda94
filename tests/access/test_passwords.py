"""Password hashes: RabbitMQ's vectors, our own, and what is refused."""

import pytest

from amqp_server.access.passwords import (
    ALGORITHMS,
    MD5,
    NO_PASSWORD,
    SCRYPT,
    SHA256,
    SHA512,
    InvalidHashError,
    PasswordHash,
)


def test_a_hash_that_rabbitmq_wrote_logs_in() -> None:
    # From RabbitMQ's documentation: salt 908D C60A, password test12.
    stored = PasswordHash(SHA256, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    stored.check()

    assert stored.matches(b"test12")
    assert not stored.matches(b"test13")


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5])
def test_quick_hashes_have_rabbitmqs_form(algorithm: str) -> None:
    stored = PasswordHash.quick(b"secret", algorithm)
    stored.check()

    assert stored.matches(b"secret")
    assert not stored.matches(b"Secret")
    assert not stored.is_slow
    assert stored.text != PasswordHash.quick(b"secret", algorithm).text


def test_our_own_hash_is_slow_and_has_its_parameters() -> None:
    stored = PasswordHash.of("pässword".encode())
    stored.check()

    assert stored.is_slow
    assert stored.text.startswith("16384:8:1:")
    assert stored.matches("pässword".encode())
    assert not stored.matches(b"password")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_blank_password_and_an_empty_hash_never_match(algorithm: str) -> None:
    assert not PasswordHash(algorithm, "").matches(b"")
    assert not PasswordHash(algorithm, "").matches(b"x")
    stored = PasswordHash.of(b"") if algorithm == SCRYPT else PasswordHash.quick(b"", algorithm)
    assert not stored.matches(b"")
    assert not NO_PASSWORD.is_slow


@pytest.mark.parametrize(
    ("algorithm", "text", "reason"),
    [
        ("rot13", "x", "unknown hashing algorithm 'rot13'"),
        (SHA256, "no base64!", "not base64"),
        (SHA256, "AAAA", "the hash has 3 octets, one of"),
        (SHA512, "A" * 48, "has 36 octets"),
        (SCRYPT, "16384:8:1:AAAA", "form n:r:p:salt:key"),
        (SCRYPT, "16383:8:1:AAAA:" + "A" * 43 + "=", "power of two"),
        (SCRYPT, "262144:8:1:AAAA:" + "A" * 43 + "=", "not allowed"),
        (SCRYPT, "16384:17:1:AAAA:" + "A" * 43 + "=", "not allowed"),
        (SCRYPT, "65536:1:1:AAAA:" + "A" * 43 + "=", r"less than 2\^"),
        (SCRYPT, "16384:8:0:AAAA:" + "A" * 43 + "=", "not allowed"),
        (SCRYPT, "9" * 5000 + ":8:1:AAAA:" + "A" * 43 + "=", "not allowed"),
        (SCRYPT, "-4:8:1:AAAA:" + "A" * 43 + "=", "form n:r:p:salt:key"),
        (SCRYPT, "16384:8:1:AAAA:AAAA", "the key has 3 octets"),
    ],
)
def test_a_text_that_is_no_hash_or_costs_too_much_is_refused(
    algorithm: str, text: str, reason: str
) -> None:
    with pytest.raises(InvalidHashError, match=reason):
        PasswordHash(algorithm, text).check()
