"""The blobs process's configuration."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig


class BlobsConfig(msgspec.Struct, frozen=True):
    """The options of `l1.beacon*`. `header` goes to the primary endpoint `beacon` alone. `slot_seconds`, if set,
    replaces the slot duration of the endpoint's spec. `timeout` is in seconds; `cache_bytes` bounds the cache of
    decoded blobs."""

    beacon: str | None
    rollup: RollupConfig
    fallbacks: tuple[str, ...] = ()
    header: tuple[str, str] | None = None
    fetch_all_sidecars: bool = False
    slot_seconds: int | None = None
    timeout: float = 30.0
    cache_bytes: int = 32 << 20
