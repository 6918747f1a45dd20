"""`witness.json`: which range a witness is of, and the blocks that everything else in it is proven from [WIT7]."""

from pathlib import Path
from typing import Any

import msgspec

from rollup_node.node.options.given_files import regular_file
from rollup_node.node.setup.chain import ChosenChain
from rollup_node.node.setup.networks import with_departure
from rollup_node.stages.protocol.config import ConfigError, RollupConfig, UpgradeBundle, check_config
from rollup_node.stages.protocol.config_json import parse_rollup_config, rollup_config_object
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex, to_hex
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.witness.preimages import WitnessError

MANIFEST, ROLLUP = "witness.json", "rollup.json"
VERSION = 1
MAX_BYTES = 64 << 20


class Block(msgspec.Struct, frozen=True):
    """A block, with its hash in hex."""

    number: int
    hash: str

    @classmethod
    def of(cls, block: BlockId) -> "Block":
        """Return the block of an id."""
        return cls(block.number, to_hex(block.hash))

    @property
    def id(self) -> BlockId:
        """Number and hash. Raises HexError."""
        return BlockId(self.number, hash_from_hex(self.hash))


class Manifest(msgspec.Struct, frozen=True):
    """L2 blocks after `safe_head` up to number `last` are derived from L1 blocks `l1_base` to `l1_head`.

    `known` is the last L2 block whose hash the L2 source gave. `agreed` and `claimed` are output roots, in hex, null
    where that could not tell them. `executes`: the store has what executing the blocks reads."""

    chain: str
    safe_head: Block
    last: int
    known: Block
    l1_base: Block
    l1_head: Block
    agreed: str | None
    claimed: str | None
    executes: bool
    preimages: int
    rollup: msgspec.Raw
    l1_chain: L1Chain
    dependency_set_size: int = 1
    bundles: dict[str, UpgradeBundle] = {}
    version: int = VERSION


def rollup_json(config: RollupConfig) -> bytes:
    """Return the chain's rollup.json."""
    return msgspec.json.encode(rollup_config_object(config))


def manifest_of(chain: ChosenChain, **fields: Any) -> Manifest:
    """Return the manifest of a witness of that chain."""
    config = chain.config
    return Manifest(
        chain=chain.name,
        rollup=msgspec.Raw(rollup_json(config)),
        l1_chain=chain.l1_chain,
        dependency_set_size=config.dependency_set_size,
        bundles=config.bundles,
        **fields,
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the files that are no preimages. Raises OSError."""
    (folder / ROLLUP).write_bytes(msgspec.json.format(bytes(manifest.rollup)))
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in a folder. Raises WitnessError."""
    path = folder / MANIFEST
    try:
        with regular_file(path) as file:
            data = file.read(MAX_BYTES + 1)
        manifest = msgspec.json.decode(data[:MAX_BYTES], type=Manifest)
        for block in (manifest.safe_head, manifest.known, manifest.l1_base, manifest.l1_head):
            hash_from_hex(block.hash)
    except FileNotFoundError:
        raise WitnessError(f"there is no {MANIFEST} in it: name the folder that `rollup-node witness` wrote") from None
    except OSError as error:
        raise WitnessError(f"{MANIFEST} cannot be read: {error.strerror}") from None
    except (*DECODE_ERRORS, HexError) as error:
        raise WitnessError(f"{MANIFEST} is damaged: {error}") from None
    if manifest.version != VERSION:
        raise WitnessError(f"{MANIFEST} has version {manifest.version}, this program reads version {VERSION}")
    if not 0 <= manifest.safe_head.number <= manifest.known.number <= manifest.last or (
        manifest.last == manifest.safe_head.number or not 0 <= manifest.l1_base.number <= manifest.l1_head.number
    ):
        raise WitnessError(f"{MANIFEST} is damaged: its blocks are out of order")
    return manifest


def rollup_of(manifest: Manifest) -> RollupConfig:
    """Return the chain's parameters. Raises WitnessError."""
    try:
        config = parse_rollup_config(bytes(manifest.rollup)).config
        check_config(config)
    except ConfigError as error:
        raise WitnessError(f"the rollup config in {MANIFEST} is wrong: {error}") from None
    with_set = msgspec.structs.replace(
        config, dependency_set_size=manifest.dependency_set_size, bundles=manifest.bundles
    )
    return with_departure(with_set)
