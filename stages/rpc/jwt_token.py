"""The tokens by which a client shows that it knows a secret, as the Engine API defines them."""

import base64
import hmac
from hashlib import sha256

import orjson

MAX_AGE = 60
"""Seconds between the issue of a token and now, either way."""


def token_error(authorization: str, secret: bytes, now: float) -> str | None:
    """Why an Authorization header is rejected, or None for an HS256 token of the secret issued within MAX_AGE of `now`,
    in Unix seconds."""
    if not authorization.startswith("Bearer "):
        return "missing token"
    try:
        signed, _, signature = authorization[7:].strip().rpartition(".")
        head, payload = (orjson.loads(_unpadded(part)) for part in signed.split("."))
        given = _unpadded(signature)
    except ValueError:
        return "malformed token"
    if not isinstance(head, dict) or head.get("alg") != "HS256":
        return "token is not signed with HS256"
    if not hmac.compare_digest(hmac.new(secret, signed.encode(), sha256).digest(), given):
        return "signature is invalid"
    issued = payload.get("iat") if isinstance(payload, dict) else None
    if not isinstance(issued, int | float) or abs(issued - now) > MAX_AGE:
        return "token is stale or has no iat"
    return None


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
