"""Which transport a URL asks for, without importing any."""

from yarl import URL


def is_plain_http(url: str) -> bool:
    """Whether a URL is well-formed, with a host and the scheme `http`."""
    try:
        parsed = URL(url)
        return parsed.scheme == "http" and bool(parsed.raw_host)
    except ValueError:
        return False


def is_web_socket(url: str) -> bool:
    """Whether a URL is one of a WebSocket endpoint."""
    try:
        return URL(url).scheme in ("ws", "wss")
    except ValueError:
        return False
