"""Codes of lasting conditions: the word that log lines, health and `/readyz` name them by, what it means and what to do
[LOG15]. `rollup-node explain CODE` prints an entry, docs/codes.md lists all."""

from enum import Enum


class Code(Enum):
    """The value is the meaning and the remedy, each one line."""

    BLOB_EXPIRED = (
        "The blobs are older than the 18 days for which beacon nodes must keep them, and no source has them.",
        "add an archive of blobs with --l1.beacon-fallbacks, or begin from a snapshot of the engine that is younger",
    )
    BLOB_CUSTODY = (
        "A beacon node keeps too few of the data columns (PeerDAS) to put the blobs together.",
        "run it with --semi-supernode or --supernode (Lighthouse, Prysm; Lodestar has --supernode alone) or"
        " --p2p-subscribe-all-custody-subnets-enabled (Teku), or add another source with --l1.beacon-fallbacks",
    )
    BLOB_FILTER = (
        "A source answers with blobs, but not with those that were asked for: a proxy in front of it may have lost or"
        " changed the query.",
        "let the proxy pass query strings on, ask the beacon node itself, or set --l1.beacon.fetch-all-sidecars",
    )
    BLOB_WRONG = (
        "The blobs that a source offers do not have the versioned hashes of the L1 transactions.",
        "use another beacon node; this one, or something in front of it, changes data",
    )
    BLOB_SLOT = (
        "The beacon node has no block in the slot of an L1 block: it belongs to another chain, has not reached the"
        " slot, or began after it.",
        "compare --l1 and --l1.beacon, and whether the beacon node is synced and backfilled",
    )
    BLOB_NOT_FOUND = (
        "Every source answers that it does not have the blobs, though they are young enough to be kept.",
        "see whether the beacon node is synced and was up when the blobs were published, or add a source with"
        " --l1.beacon-fallbacks",
    )
    BLOB_SHAPE = (
        "The answer is not what this route of the Beacon API returns.",
        "see whether --l1.beacon names a beacon node: the execution client's URL goes to --l1",
    )
    BLOB_UNREACHABLE = (
        "No source of blobs answers, or each refuses.",
        "see whether the beacon node is up, and its URL, key and quota",
    )
    BLOB_NO_SOURCE = (
        "A batch is in blobs, and there is no endpoint to fetch them from.",
        "give one with --l1.beacon",
    )

    NO_BATCHES = (
        "No batch has been accepted for a tenth of the sequencing window. When the window ends, empty blocks take the"
        " place of the unsafe ones.",
        "see whether the chain's batcher is running and paid; if others sent to the inbox, whether the batcher in"
        " --rollup.config or of --network is the chain's; if batches were dropped, rollup-node explain --rpc says why",
    )

    @property
    def text(self) -> str:
        """The code as it is written, such as BLOB-EXPIRED."""
        return self.name.replace("_", "-")

    @property
    def meaning(self) -> str:
        """What the condition is."""
        return self.value[0]

    @property
    def remedy(self) -> str:
        """What the operator can do."""
        return self.value[1]
