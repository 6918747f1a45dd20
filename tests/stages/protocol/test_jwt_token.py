"""Tokens of the Engine API's form."""

import base64

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.jwt_token import MAX_AGE, authorization, token_error

SECRET = bytes(range(32))
NOW = 1_700_000_000


def token(secret: bytes = SECRET, algorithm: str = "HS256", **claims: object) -> str:
    return "Bearer " + jwt.encode(claims, secret, algorithm=algorithm)


def test_fresh_tokens_of_the_secret_pass() -> None:
    for issued in (NOW, NOW - MAX_AGE, NOW + MAX_AGE):
        assert token_error(token(iat=issued), SECRET, NOW) is None


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "missing token"),
        ("Basic x", "missing token"),
        ("Bearer x", "malformed token"),
        ("Bearer a.b.c", "malformed token"),
        ("Bearer " + base64.urlsafe_b64encode(b'{"alg":"none"}').decode() + ".e30.", "token is not signed with HS256"),
        (token(iat=NOW - MAX_AGE - 1), "token is stale or has no iat"),
        (token(iat=NOW + MAX_AGE + 1), "token is stale or has no iat"),
        (token(), "token is stale or has no iat"),
        (token(b"y" * 32, iat=NOW), "signature is invalid"),
        (token(SECRET * 2, "HS512", iat=NOW), "token is not signed with HS256"),
    ],
)
def test_other_headers_are_rejected(header: str, reason: str) -> None:
    assert token_error(header, SECRET, NOW) == reason


@given(st.binary(min_size=32, max_size=32), st.floats(0, 1 << 40))
def test_our_tokens_are_those_of_another_implementation(secret: bytes, now: float) -> None:
    header = authorization(secret, now)
    assert token_error(header, secret, now) is None
    claims = jwt.decode(header.removeprefix("Bearer "), secret, algorithms=["HS256"], options={"verify_iat": False})
    assert claims == {"iat": int(now)}


@given(st.text(max_size=60))
def test_any_header_is_rejected_with_a_reason(text: str) -> None:
    assert token_error("Bearer " + text, SECRET, NOW)
