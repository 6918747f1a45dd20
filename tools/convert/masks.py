"""Addresses without what may be a login or a provider's key."""

from urllib.parse import urlsplit

MASK = "***"


def masked_address(text: str) -> str:
    """Return an address without user, path and query, which hold the keys of providers, and other texts as they are."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return MASK
    if parts.scheme not in ("http", "https", "ws", "wss"):
        return text
    host = parts.netloc.rpartition("@")[2]
    user = f"{MASK}@" if "@" in parts.netloc else ""
    rest = f"/{MASK}" if parts.path.strip("/") or parts.query or parts.fragment else ""
    return f"{parts.scheme}://{user}{host}{rest}"
