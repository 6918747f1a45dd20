"""The tokens by which a client shows that it knows a secret, as the Engine API defines them: HS256 with an `iat`.

PyJWT is imported by the first token: it brings `cryptography` along, which a start loads while L1 answers."""

import orjson

MAX_AGE = 60
"""Seconds between the issue of a token and now, either way."""
_ALGORITHM = "HS256"


def authorization(secret: bytes, now: float) -> str:
    """Return the Authorization header with a token of the secret that is issued at `now`, in Unix seconds."""
    import jwt

    return "Bearer " + jwt.encode({"iat": int(now)}, secret, algorithm=_ALGORITHM)


def token_error(header: str, secret: bytes, now: float) -> str | None:
    """Return why an Authorization header is rejected.

    None for an HS256 token of the secret that was issued within MAX_AGE of `now`, in Unix seconds. No other claim
    counts, so that the signature alone is left to the library."""
    import jwt

    if not header.startswith("Bearer "):
        return "missing token"
    try:
        signatures = jwt.PyJWS(algorithms=[_ALGORITHM])
        claims = orjson.loads(signatures.decode(header[7:].strip(), secret, algorithms=[_ALGORITHM]))
    except jwt.InvalidAlgorithmError:
        return "token is not signed with HS256"
    except jwt.InvalidSignatureError:
        return "signature is invalid"
    except (jwt.PyJWTError, ValueError, RecursionError):
        return "malformed token"
    issued = claims.get("iat") if isinstance(claims, dict) else None
    if not isinstance(issued, int | float) or not now - MAX_AGE <= issued <= now + MAX_AGE:
        return "token is stale or has no iat"
    return None
