"""Which tokens the back end for tokens accepts, and what it reads in them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest

from amqp_server.access.backends.backend import Identity, Refusal
from amqp_server.access.backends.oauth2.keys import BadKeyError, key_from_file, keys_from_set
from amqp_server.access.backends.oauth2.token_backend import TOKEN_BYTES_MAX, TokenBackend
from amqp_server.access.permissions import Right
from amqp_server.base.config import ConfigError, ServerConfig
from amqp_server.base.errors import StartupError
from tests.access.backends.tokens import RESOURCE, Issuer, key_set

SECP160R1 = """-----BEGIN PUBLIC KEY-----
MD4wEAYHKoZIzj0CAQYFK4EEAAgDKgAEcrTB3BXSx4rgAmXjKCzkSCbnpVlsScZx
BEm4so5CDpXqOtMRSgrP5Q==
-----END PUBLIC KEY-----
"""
ISSUER = Issuer()
OTHER = Issuer()
CURVE = Issuer("curve", bits=0)


def configured(tmp_path: Path, **settings: Any) -> ServerConfig:  # noqa: ANN401
    made = {
        "auth_backends": "oauth2",
        "auth_oauth2_resource_server_id": RESOURCE,
        "auth_oauth2_signing_keys": ISSUER.write_key(tmp_path),
        **settings,
    }
    return ServerConfig(**made)


async def answer_to(tmp_path: Path, token: str | None, **settings: Any) -> Identity | Refusal:  # noqa: ANN401
    return await TokenBackend(configured(tmp_path, **settings)).authenticate("x", token, "::1")


async def refusal_of(tmp_path: Path, token: str | None, **settings: Any) -> str:  # noqa: ANN401
    found = await answer_to(tmp_path, token, **settings)
    assert isinstance(found, Refusal)
    return found.reason


async def identity_of(tmp_path: Path, token: str, **settings: Any) -> Identity:  # noqa: ANN401
    found = await answer_to(tmp_path, token, **settings)
    assert isinstance(found, Identity), found
    return found


def forged(header: dict[str, Any], key: bytes = b"") -> str:
    """Return a token with any header, signed with a shared secret if there is one."""
    claims = {
        "sub": "alice",
        "aud": RESOURCE,
        "exp": time.time() + 60,
        "scope": "rabbitmq.read:*/*",
    }
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in (header, claims)
    ]
    signed = b".".join(parts)
    signature = hmac.digest(key, signed, hashlib.sha256) if key else b""
    return b".".join([signed, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


async def test_a_good_token_says_who_the_user_is(tmp_path: Path) -> None:
    expires = time.time() + 100
    token = ISSUER.token(exp=expires, scope="rabbitmq.read:*/* rabbitmq.tag:monitoring other.x")
    found = await identity_of(tmp_path, token)
    assert (found.name, found.tags, found.expires) == ("alice", ("monitoring",), expires)


@pytest.mark.parametrize("name", ["none", "None", "NONE", "HS256", "HS512", "RS257", "", 5, None])
async def test_no_other_algorithm_is_accepted(tmp_path: Path, name: object) -> None:
    for key in (b"", ISSUER.public_pem):
        reason = await refusal_of(tmp_path, forged({"typ": "JWT", "alg": name, "kid": "k1"}, key))
        assert "algorithm" in reason or "no token" in reason


async def test_the_public_key_is_no_shared_secret(tmp_path: Path) -> None:
    for alg in ("HS256", "RS256"):
        token = forged({"typ": "JWT", "alg": alg, "kid": "k1"}, ISSUER.public_pem)
        assert await refusal_of(tmp_path, token)


def test_a_shared_secret_cannot_be_asked_for(tmp_path: Path) -> None:
    for name in ("HS256", "none", "RS256,HS256"):
        with pytest.raises(ConfigError):
            configured(tmp_path, auth_oauth2_algorithms=name)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"seconds": -1}, "expired"),
        ({"exp": None}, "no exp"),
        ({"exp": "soon"}, "invalid"),
        ({"exp": True}, "expired"),
        ({"exp": 2**60}, "no time"),
        ({"nbf": time.time() + 3600}, "not valid yet"),
        ({"aud": "other"}, "audience"),
        ({"aud": ["other", "more"]}, "audience"),
        ({"aud": None}, "no aud"),
        ({"aud": {"rabbitmq": 1}}, "audience|invalid"),
        ({"sub": "x" * 256}, "255 bytes"),
        ({"scope": [f"rabbitmq.tag:{n}" for n in range(2049)]}, "bytes|scopes"),
        ({"kid": "unknown"}, "unknown key"),
    ],
)
async def test_why_a_token_is_refused(tmp_path: Path, claims: dict[str, Any], reason: str) -> None:
    found = await refusal_of(tmp_path, ISSUER.token(**claims))
    assert any(each in found for each in reason.split("|")), found


@pytest.mark.parametrize(
    "headers", [{"crit": ["x"], "x": 1}, {"crit": []}, {"crit": "x"}, {"crit": ["exp"]}]
)
async def test_a_header_that_must_be_understood_is_refused(
    tmp_path: Path, headers: dict[str, Any]
) -> None:
    assert await refusal_of(tmp_path, ISSUER.token(headers=headers))


async def test_keys_in_the_headers_of_a_token_do_not_count(tmp_path: Path) -> None:
    headers = {"jwk": OTHER.row, "jku": "http://127.0.0.1:1/jwks", "x5u": "http://127.0.0.1:1/"}
    assert (await identity_of(tmp_path, ISSUER.token(headers=headers))).name == "alice"
    assert "signature" in await refusal_of(tmp_path, OTHER.token(kid="k1", headers=headers))


async def test_a_wrong_key_is_refused(tmp_path: Path) -> None:
    assert "signature" in await refusal_of(tmp_path, OTHER.token())


async def test_a_changed_token_is_refused(tmp_path: Path) -> None:
    head, _, signature = ISSUER.token().split(".")
    body = ISSUER.token(sub="root").split(".")[1]
    assert "signature" in await refusal_of(tmp_path, f"{head}.{body}.{signature}")


@pytest.mark.parametrize("text", ["x", "a.b.c", "..", "é.é.é", "x" * (TOKEN_BYTES_MAX + 1), None])
async def test_what_is_no_token_is_refused(tmp_path: Path, text: str | None) -> None:
    assert await refusal_of(tmp_path, text)


async def test_an_algorithm_must_fit_the_key(tmp_path: Path) -> None:
    keys = f"{ISSUER.write_key(tmp_path)},{CURVE.write_key(tmp_path)}"
    await identity_of(tmp_path, CURVE.token(), auth_oauth2_signing_keys=keys)
    token = ISSUER.token(kid="curve")
    assert "does not fit" in await refusal_of(tmp_path, token, auth_oauth2_signing_keys=keys)


async def test_only_the_algorithms_of_the_setting_are_accepted(tmp_path: Path) -> None:
    token = ISSUER.token()
    await identity_of(tmp_path, token, auth_oauth2_algorithms="RS256")
    assert "RS256" in await refusal_of(tmp_path, token, auth_oauth2_algorithms="ES256,RS512")


async def test_a_token_without_the_name_of_a_key(tmp_path: Path) -> None:
    token = ISSUER.token(kid=None)
    await identity_of(tmp_path, token)
    keys = f"{ISSUER.write_key(tmp_path)},{CURVE.write_key(tmp_path)}"
    assert "unknown key" in await refusal_of(tmp_path, token, auth_oauth2_signing_keys=keys)
    settings = {"auth_oauth2_signing_keys": keys, "auth_oauth2_default_key": "k1"}
    await identity_of(tmp_path, token, **settings)


async def test_the_audience_need_not_be_checked(tmp_path: Path) -> None:
    for aud in ("other", None):
        await identity_of(tmp_path, ISSUER.token(aud=aud), auth_oauth2_verify_aud=False)


async def test_the_issuer_is_checked_if_it_is_set(tmp_path: Path) -> None:
    settings = {"auth_oauth2_issuer": "https://id.example/realm"}
    await identity_of(tmp_path, ISSUER.token(iss="https://id.example/realm"), **settings)
    for issuer in (None, "https://evil.example/realm"):
        assert await refusal_of(tmp_path, ISSUER.token(iss=issuer), **settings)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "s", "client_id": "c", "login": "l"}, "l"),
        ({"sub": "s", "client_id": "c"}, "s"),
        ({"sub": "", "client_id": "c"}, "c"),
        ({"sub": None}, "unknown"),
        ({"login": ["l"], "sub": "s"}, "s"),
    ],
)
async def test_the_name_of_the_user(tmp_path: Path, claims: dict[str, Any], name: str) -> None:
    settings = {"auth_oauth2_preferred_username_claims": "login,email"}
    assert (await identity_of(tmp_path, ISSUER.token(**claims), **settings)).name == name


@pytest.mark.parametrize(
    ("claims", "settings"),
    [
        ({"scope": "rabbitmq.read:*/q"}, {}),
        ({"scope": ["rabbitmq.read:*/q"]}, {}),
        ({"scope": "mq-read:*/q"}, {"auth_oauth2_scope_prefix": "mq-"}),
        ({"scope": "reader"}, {"auth_oauth2_scope_aliases": "reader=rabbitmq.read:*/q x,y=z"}),
        (
            {"scope": None, "a": {"b": "rabbitmq.read:*/q"}},
            {"auth_oauth2_additional_scopes_key": "x a.b"},
        ),
        (
            {"scope": None, "more": {"rabbitmq": ["read:*/q"]}},
            {"auth_oauth2_additional_scopes_key": "more"},
        ),
        (
            {"scope": 5, "authorization": {"permissions": [{"scopes": ["rabbitmq.read:*/q"]}]}},
            {},
        ),
        ({"scope": "rabbitmq.read:*/{queue}", "queue": "q"}, {}),
        ({"scope": "rabbitmq.read:{vhost}/q"}, {}),
    ],
)
async def test_where_scopes_may_be(
    tmp_path: Path, claims: dict[str, Any], settings: dict[str, Any]
) -> None:
    backend = TokenBackend(configured(tmp_path, **settings))
    found = await backend.authenticate("", ISSUER.token(**claims), "::1")
    assert isinstance(found, Identity)
    granted = backend.grants(found, "/")
    assert granted.allows(Right.READ, "queue", "q")
    assert not granted.allows(Right.READ, "queue", "qq")
    assert not granted.allows(Right.WRITE, "queue", "q")


async def test_a_claim_in_a_scope_means_itself(tmp_path: Path) -> None:
    backend = TokenBackend(configured(tmp_path))
    token = ISSUER.token(scope="rabbitmq.read:*/{name}", name="*")
    found = await backend.authenticate("", token, "::1")
    assert isinstance(found, Identity)
    assert backend.grants(found, "/").allows(Right.READ, "queue", "*")
    assert not backend.grants(found, "/").allows(Right.READ, "queue", "q")


def test_a_key_of_a_curve_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(SECP160R1)
    with pytest.raises(BadKeyError, match="another kind"):
        key_from_file(path)


def test_files_that_are_no_public_key_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    for octets in (
        b"",
        b"nothing",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    ):
        path.write_bytes(octets)
        with pytest.raises(BadKeyError):
            key_from_file(path)
    path.write_bytes(b"-----BEGIN RSA PRIVATE KEY-----\n")
    with pytest.raises(BadKeyError, match="private"):
        key_from_file(path)
    path.write_bytes(Issuer(bits=1024).public_pem)
    with pytest.raises(BadKeyError, match="1024 bits"):
        key_from_file(path)
    with pytest.raises(StartupError, match="signing key 'a'"):
        TokenBackend(configured(tmp_path, auth_oauth2_signing_keys=f"a={tmp_path / 'missing'}"))


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys":5}',
        b'{"keys":[]}',
        b'{"keys":[5,null,{"kty":"RSA"},{"kid":7}]}',
        b'{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"k1"}]}',
        b"[" * 100_000,
        key_set(Issuer(bits=1024)).encode(),
    ],
)
def test_what_is_no_key_set_is_refused(octets: bytes) -> None:
    with pytest.raises(BadKeyError):
        keys_from_set(octets)


def test_keys_of_a_set_that_do_not_sign_are_left_out() -> None:
    rows = [
        {**ISSUER.row, "kid": "encrypts", "use": "enc"},
        {**ISSUER.row, "kid": "shared", "kty": "oct", "k": "c2VjcmV0"},
        {**ISSUER.row, "kid": "confused", "alg": "HS256"},
        {**CURVE.row, "kid": "broken", "x": "AAAA"},
        CURVE.row,
        ISSUER.row,
    ]
    found = keys_from_set(json.dumps({"keys": rows}).encode())
    assert {name: key.algorithms for name, key in found.items()} == {
        "k1": ("RS256",),
        "curve": ("ES256",),
    }
