"""The blobs process's configuration."""

import msgspec


class DaServerConfig(msgspec.Struct, frozen=True):
    """The `altda.*` options about reading [ADA2]: `get_timeout` in s, 0 for none, `max_requests` at the same time."""

    url: str
    get_timeout: float = 0.0
    max_requests: int = 1
    verify_on_read: bool = True


class BlobsConfig(msgspec.Struct, frozen=True):
    """The options of `l1.beacon*`.

    `header` goes to the primary endpoint `beacon` alone. `slot_seconds`, if set, replaces the slot duration of the
    endpoint's spec. `timeout` is in seconds; `cache_bytes` bounds the cache of decoded blobs. `da_servers` are those of
    chains with Alt-DA by group, "" in a node of one chain."""

    beacon: str | None
    fallbacks: tuple[str, ...] = ()
    header: tuple[str, str] | None = None
    fetch_all_sidecars: bool = False
    slot_seconds: int | None = None
    timeout: float = 30.0
    cache_bytes: int = 32 << 20
    da_servers: dict[str, DaServerConfig] = {}
