"""What the blobs process is told at its start."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig


class BlobsConfig(msgspec.Struct, frozen=True):
    """The options of `l1.beacon*`. `header` goes to the primary endpoint only, `slot_seconds` overrides what the
    endpoint says, `timeout` in seconds, `cache_bytes` bounds the decoded blobs that are kept."""

    beacon: str | None
    rollup: RollupConfig
    fallbacks: tuple[str, ...] = ()
    header: tuple[str, str] | None = None
    fetch_all_sidecars: bool = False
    slot_seconds: int | None = None
    timeout: float = 30.0
    cache_bytes: int = 32 << 20
