"""Beacon networks: genesis, fork schedule and preset, and what follows from them for a slot [LCP1, LCP3]."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.l1.light_client.ssz import DOMAIN_SYNC_COMMITTEE, Root, compute_domain
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized

MAX_FILE_VALUES = 10_000
NEVER = (1 << 64) - 1
"""The epoch of a fork that is not scheduled."""


class Indices(NamedTuple):
    """Generalized indices in the beacon state, and of the execution block hash in the block body (0 before Capella)."""

    finalized_root: int
    current_sync_committee: int
    next_sync_committee: int
    block_hash: int


INDICES: Mapping[str, Indices] = {
    "altair": Indices(105, 54, 55, 0),
    "bellatrix": Indices(105, 54, 55, 0),
    "capella": Indices(105, 54, 55, 412),
    "deneb": Indices(105, 54, 55, 812),
    "electra": Indices(169, 86, 87, 812),
    "fulu": Indices(169, 86, 87, 812),
    "gloas": Indices(735, 2945, 2946, 2856),
}
"""By fork, oldest first, from the first with sync committees. In Gloas the hash is the parent block's [LCP4]."""

EXECUTION_PAYLOAD = 25
"""Generalized index of the execution payload in a block body before Gloas."""


class BeaconFork(msgspec.Struct, frozen=True, array_like=True):
    """`genesis` or one of INDICES; `version` has 4 bytes."""

    name: str
    version: bytes
    epoch: int

    @property
    def indices(self) -> Indices:
        """Generalized indices from this fork on."""
        return INDICES.get(self.name, INDICES["altair"])


class Preset(msgspec.Struct, frozen=True, array_like=True):
    """The sizes that differ between networks."""

    sync_committee_size: int = 512
    slots_per_epoch: int = 32
    epochs_per_period: int = 256


MAINNET = Preset()
MINIMAL = Preset(32, 8, 8)


class BeaconNetwork(msgspec.Struct, frozen=True, array_like=True):
    """A beacon chain; `genesis_time` in Unix seconds, `slot_ms` in milliseconds, `forks` oldest first, from genesis."""

    name: str
    genesis_validators_root: Root
    genesis_time: int
    forks: tuple[BeaconFork, ...]
    preset: Preset = MAINNET
    slot_ms: int = 12_000

    @property
    def slots_per_period(self) -> int:
        """Slots for which a sync committee signs."""
        return self.preset.slots_per_epoch * self.preset.epochs_per_period

    def slot_at(self, time: float) -> int:
        """Return the slot of a time in Unix seconds, 0 before genesis."""
        return max(0, int((time - self.genesis_time) * 1000) // self.slot_ms)

    def time_of(self, slot: int) -> int:
        """Return the Unix seconds at which a slot starts."""
        return self.genesis_time + slot * self.slot_ms // 1000

    def period_of(self, slot: int) -> int:
        """Return the sync committee period of a slot."""
        return slot // self.slots_per_period

    def fork_at(self, slot: int) -> BeaconFork:
        """Return the fork in force at a slot."""
        epoch = slot // self.preset.slots_per_epoch
        return next(fork for fork in reversed(self.forks) if epoch >= fork.epoch)

    def has_blobs(self, slot: int) -> bool:
        """Whether Deneb or a later fork is in force at a slot."""
        names = ("genesis", *INDICES)
        return names.index(self.fork_at(slot).name) >= names.index("deneb")

    def signature_domain(self, signature_slot: int) -> bytes:
        """Return the domain of a sync committee's signature in a block of that slot."""
        fork = self.fork_at(max(signature_slot, 1) - 1)
        return compute_domain(DOMAIN_SYNC_COMMITTEE, fork.version, self.genesis_validators_root)


def _public(name: str, genesis_time: int, root: str, versions: Iterable[str], epochs: Sequence[int]) -> BeaconNetwork:
    names = ("genesis", *INDICES)
    forks = [
        BeaconFork(fork, bytes.fromhex(version), epoch)
        for fork, version, epoch in zip(names, versions, (0, *epochs), strict=False)
    ]
    return BeaconNetwork(name, bytes.fromhex(root), genesis_time, tuple(forks))


BEACON_NETWORKS: Mapping[int, BeaconNetwork] = {
    1: _public(
        "mainnet",
        1606824023,
        "4b363db94e286120d76eb905340fdd4e54bfe9f06bf33ff6cf5ad27f511bfe95",
        [f"{fork:02x}000000" for fork in range(8)],
        (74240, 144896, 194048, 269568, 364032, 411392),
    ),
    11_155_111: _public(
        "sepolia",
        1655733600,
        "d8ea171f3c94aea21ebc42a1ed61052acf3f9209c00e4efbaaddac09ed9b8078",
        [f"900000{69 + fork}" for fork in range(8)],
        (50, 100, 56832, 132608, 222464, 272640, 353024),
    ),
    560_048: _public(
        "hoodi",
        1742213400,
        "212f13fc4df078b6cb7db228f1c8307566dcecf900867401a92023d7ba99cb5f",
        [f"{fork + 1}0000910" for fork in range(8)],
        (0, 0, 0, 0, 2048, 50688),
    ),
}
"""By the chain id of the execution layer."""


class NetworkFileError(ValueError):
    """A file does not describe a beacon network; the text says why."""


def parse_network(content: bytes) -> BeaconNetwork:
    """Return the network of a file: the Beacon API's `config/spec` with the members of `beacon/genesis` [LCP3].

    All values are strings, as the Beacon API has them. Raises NetworkFileError."""
    try:
        values: dict[str, Any] = decode_json(content, dict[str, Any], MAX_FILE_VALUES, "the file")
    except MalformedJsonError as error:
        raise NetworkFileError(str(error)) from None
    slot_ms = _number(values, "SLOT_DURATION_MS", 0) or 1000 * _number(values, "SECONDS_PER_SLOT")
    preset = Preset(
        _number(values, "SYNC_COMMITTEE_SIZE"),
        _number(values, "SLOTS_PER_EPOCH"),
        _number(values, "EPOCHS_PER_SYNC_COMMITTEE_PERIOD"),
    )
    if (
        slot_ms < 1
        or 0 in msgspec.structs.astuple(preset)
        or preset.sync_committee_size & (preset.sync_committee_size - 1)
    ):
        raise NetworkFileError("slot duration and sizes must be positive, and SYNC_COMMITTEE_SIZE a power of two")
    root = _bytes(values, "genesis_validators_root", 32)
    forks = [BeaconFork("genesis", _bytes(values, "GENESIS_FORK_VERSION", 4), 0)]
    for name in INDICES:
        epoch = _number(values, f"{name.upper()}_FORK_EPOCH", NEVER)
        if epoch != NEVER:
            forks.append(BeaconFork(name, _bytes(values, f"{name.upper()}_FORK_VERSION", 4), epoch))
    epochs = [fork.epoch for fork in forks]
    if epochs != sorted(epochs):
        raise NetworkFileError("a fork has an earlier epoch than the one before it")
    return BeaconNetwork(
        str(values.get("CONFIG_NAME", "private")), root, _number(values, "genesis_time"), tuple(forks), preset, slot_ms
    )


def _number(values: Mapping[str, Any], name: str, default: int | None = None) -> int:
    text = str(values.get(name, default))
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise NetworkFileError(f"{name} is not a number" if name in values else f"{name} is missing")
    return int(text)


def _bytes(values: Mapping[str, Any], name: str, size: int) -> bytes:
    try:
        return from_hex_sized(values.get(name), size)
    except HexError as error:
        raise NetworkFileError(f"{name}: {error}") from None
