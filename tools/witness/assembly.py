"""Completes the store of a witness by the packs of its ranges, so that two runs have the same files."""

from collections.abc import Sequence
from typing import Any

from rollup_node.node.setup.chain import ChosenChain
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.tools.witness.manifest import Block, Manifest, manifest_of, rollup_json, write_manifest
from rollup_node.tools.witness.packs import (
    L2Pack,
    PackFolder,
    RangeResult,
    StoredPack,
    blob_name,
    execution_name,
    l1_name,
    l2_name,
    range_name,
    receipts_name,
)
from rollup_node.tools.witness.preimages import EMPTY_LIST, PreimageFolder, WitnessError, hashed_preimages

L1_HEAD, AGREED, CLAIMED, CLAIMED_NUMBER, CHAIN_ID, ROLLUP_CONFIG, L1_CONFIG = range(1, 8)
"""The local keys of kona-client's boot inputs."""
Range = tuple[int, int]


def assemble(packs: PackFolder, ranges: Sequence[Range], chain: ChosenChain, l1_config: bytes | None) -> Manifest:
    """Complete the store of adjacent ranges of L2 blocks, and return its manifest.

    `l1_config` is the file of an L1 chain that is not built in. Raises OSError, and WitnessError where a pack is
    missing."""
    store = packs.store
    results = [packs.get(range_name(*item), RangeResult, f"the range {item[0]} to {item[1]}") for item in ranges]
    base, head = results[0].base, results[-1].head
    packs.sweep(_l1_packs(packs, base, head))
    first, last = ranges[0][0], ranges[-1][1]
    known = _put_l2(packs, store, first, last)
    roots = [_put_output(store, preimage) for preimage in (results[0].agreed, results[-1].claimed)]
    _put_boot(store, chain, head, roots, last, l1_config)
    executed = [number for number in range(first + 1, last + 1) if _put_execution(packs, store, number)]
    safe = packs.get(l2_name(first), L2Pack, f"L2 block {first}")
    manifest = manifest_of(
        chain,
        safe_head=Block.of(BlockId(first, safe.hash)),
        last=last,
        known=Block.of(known),
        l1_base=Block.of(base),
        l1_head=Block.of(head),
        agreed=None if roots[0] is None else "0x" + roots[0].hex(),
        claimed=None if roots[1] is None else "0x" + roots[1].hex(),
        executes=len(executed) == last - first,
        preimages=store.count(),
    )
    write_manifest(store.path, manifest)
    return manifest


def _l1_packs(packs: PackFolder, base: BlockId, head: BlockId) -> set[str]:
    """Walk back from the head; kona-client reads the receipts of all blocks but the base [WIT5]."""
    number, block_hash, used = head.number, head.hash, set()
    while True:
        pack = packs.get(l1_name(block_hash), StoredPack, f"L1 block {number}")
        used.add(l1_name(block_hash))
        if number > base.number and pack.has_receipts:
            used.add(receipts_name(block_hash))
        used.update(filter(packs.has, map(blob_name, pack.blobs)))
        if number <= base.number:
            break
        number, block_hash = number - 1, pack.parent
    if block_hash != base.hash:
        raise WitnessError(f"L1 was reorganized at block {base.number} while it was read: run it again")
    return used


def _put_l2(packs: PackFolder, store: PreimageFolder, first: int, last: int) -> BlockId:
    """Write the headers of the blocks, and up to the safe head their transactions; the last block that is known."""
    number = first
    while packs.has(l2_name(number)):
        pack = packs.get(l2_name(number), L2Pack, f"L2 block {number}")
        store.put_hashed(pack.header)
        nodes: dict[Hash, bytes] = {}
        ordered_root(pack.transactions, nodes)
        store.put(hashed_preimages(nodes or EMPTY_LIST))
        number -= 1
    known = BlockId(first, packs.get(l2_name(first), L2Pack, f"L2 block {first}").hash)
    for number in range(first + 1, last + 1):
        if not packs.has(l2_name(number)):
            break
        pack = packs.get(l2_name(number), L2Pack, f"L2 block {number}")
        store.put_hashed(pack.header)
        known = BlockId(number, pack.hash)
    return known


def _put_output(store: PreimageFolder, preimage: bytes) -> bytes | None:
    """Write the preimage of an output root, and return the root; None where it is unknown."""
    if not preimage:
        return None
    store.put_hashed(preimage)
    return keccak256(preimage)


def _put_execution(packs: PackFolder, store: PreimageFolder, number: int) -> bool:
    if not packs.has(execution_name(number)):
        return False
    for value in packs.get(execution_name(number), tuple[bytes, ...], f"the execution of L2 block {number}"):
        store.put_hashed(value)
    return True


def _put_boot(
    store: PreimageFolder, chain: ChosenChain, head: BlockId, roots: Sequence[Any], last: int, l1_config: bytes | None
) -> None:
    values = {
        L1_HEAD: head.hash,
        AGREED: roots[0],
        CLAIMED: roots[1],
        CLAIMED_NUMBER: last.to_bytes(8, "big"),
        CHAIN_ID: chain.config.l2_chain_id.to_bytes(8, "big"),
        ROLLUP_CONFIG: rollup_json(chain.config),
        L1_CONFIG: l1_config,
    }
    for number, value in values.items():
        if value is not None:
            store.put_local(number, value)
