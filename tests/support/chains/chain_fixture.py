"""A small L1 chain and L2 blocks on it, for the tests of the engine stage and of replays."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rollup_node.stages.engine.calls.heads import L2BlockInfo, l2_block_info
from rollup_node.stages.protocol.attributes import prepare_attributes, with_transactions
from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.headers import encode_header
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import BlobFork, L1Chain
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, payload_block_hash, payload_header
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1Block, L1BlockRef, L1Header, L2BlockRef
from rollup_node.tools.bench import signed_blocks

L1_CHAIN = L1Chain(900, "test", (BlobFork("cancun", 0, 3_338_477),))
ALL_FORKS = FORK_NAMES[1 : FORK_NAMES.index("jovian") + 1]
USER = signed_blocks.transfer(7, 901)
GENESIS_L1, GENESIS_TIME = 100, 1_000


def l1_header(number: int, branches: Sequence[tuple[int, str]] = ((0, "a"),), step: int = 12) -> L1Header:
    """Block `number` of an L1 chain with `step` seconds between blocks.

    `branches` are first block and name of each branch, from the lowest up."""

    def block_hash(of: int) -> bytes:
        branch = [name for first, name in branches if first <= max(of, 0)][-1]
        return keccak256(f"{branch} {of}".encode())

    return L1Header(
        hash=block_hash(number),
        number=number,
        parent_hash=block_hash(number - 1),
        timestamp=GENESIS_TIME + step * (number - GENESIS_L1),
        mix_hash=keccak256(b"mix" + number.to_bytes(8, "big")),
        base_fee=7,
        excess_blob_gas=0,
        parent_beacon_root=keccak256(b"beacon" + number.to_bytes(8, "big")),
    )


def genesis_payload() -> ExecutionPayload:
    """Return the L2 genesis block."""
    payload = msgspec.structs.replace(
        signed_blocks.genesis_payload(GENESIS_TIME),
        state_root=keccak256(b"genesis state"),
        gas_limit=30_000_000,
        extra_data=b"genesis",
    )
    return msgspec.structs.replace(payload, block_hash=payload_block_hash(payload))


def block_entry(payload: ExecutionPayload, prefix: str = "0x") -> dict[str, Any]:
    """Return a block as a file of L2 blocks has it: header RLP and encoded transactions."""
    header = encode_header(payload_header(payload))
    return {"header_rlp": prefix + header.hex(), "txs": [prefix + raw.hex() for raw in payload.transactions]}


class ChainFixture:
    """An L1 chain of headers, and L2 blocks on it made of real attributes.

    `seal` makes the block that an execution engine would. `known` and `payloads` hold all L2 blocks ever made, by
    hash."""

    l1_chain = L1_CHAIN
    user = USER

    def __init__(self, rollup: RollupConfig, l1_step: int = 12) -> None:
        self.rollup, self.l1_step = rollup, l1_step
        self.branches = [(0, "a")]
        genesis = rollup.genesis
        self.genesis = L2BlockRef(genesis.l2.hash, genesis.l2.number, ZERO_HASH, genesis.l2_time, genesis.l1, 0)
        self.known: dict[bytes, L2BlockInfo] = {
            self.genesis.hash: L2BlockInfo(self.genesis, genesis.l2_time, genesis.system_config)
        }
        self.payloads: dict[bytes, ExecutionPayload] = {}

    def reorg(self, branch: str, fork_at: int) -> None:
        """From `fork_at` on, L1 is another chain."""
        self.branches = [branch for branch in self.branches if branch[0] < fork_at] + [(fork_at, branch)]

    def l1(self, number: int) -> L1Block:
        """Return the canonical L1 block of a number."""
        return L1Block(l1_header(number, self.branches, self.l1_step), (), (), ())

    def l1_ref(self, number: int) -> L1BlockRef:
        """Return the reference of the canonical L1 block of a number."""
        return self.l1(number).ref

    def attributes(
        self, parent: L2BlockRef, epoch: int, users: Sequence[bytes] = (), config: SystemConfig | None = None
    ) -> PayloadAttributes:
        """Derived attributes of the block after `parent` with the L1 origin `epoch`.

        `config` is that of a parent that is not built yet."""
        block = self.l1(epoch)
        config = config or self.known[parent.hash].config
        prepared = prepare_attributes(self.rollup, L1_CHAIN, parent, config, block.header, (), ())
        return with_transactions(prepared.attributes, users)

    def seal(self, parent: L2BlockRef, attributes: PayloadAttributes, extra: Sequence[bytes] = ()) -> ExecutionPayload:
        """Return the block of attributes; `extra` are transactions of the engine's pool."""
        return self.keep(signed_blocks.sealed(self.rollup, parent.id, attributes, tuple(extra)))

    def keep(self, payload: ExecutionPayload) -> ExecutionPayload:
        """Add a block; the block."""
        self.payloads[payload.block_hash] = payload
        self.known[payload.block_hash] = l2_block_info(payload, self.rollup)
        return payload

    def ref(self, payload: ExecutionPayload) -> L2BlockRef:
        """Return the reference of a block."""
        return self.known[payload.block_hash].ref

    def build(self, length: int, per_epoch: int = 6, users: Sequence[bytes] = ()) -> list[L2BlockRef]:
        """Genesis and `length` blocks, `per_epoch` of them to an L1 block."""
        refs = [self.genesis]
        for number in range(1, length + 1):
            epoch = GENESIS_L1 + number // per_epoch
            refs.append(self.ref(self.seal(refs[-1], self.attributes(refs[-1], epoch, users))))
        return refs

    def extend(self, parent: L2BlockRef, count: int, users: Sequence[bytes]) -> list[L2BlockRef]:
        """Return so many blocks on a parent, all with its L1 origin."""
        refs = [parent]
        for _ in range(count):
            refs.append(self.ref(self.seal(refs[-1], self.attributes(refs[-1], parent.l1_origin.number, users))))
        return refs[1:]


def make_rollup(fork_times: Mapping[str, int] | None = None, **changes: object) -> RollupConfig:
    """Return a rollup config with all forks at genesis, or at the times given."""
    config = RollupConfig(
        genesis=Genesis(
            l1=BlockId(GENESIS_L1, l1_header(GENESIS_L1).hash),
            l2=BlockId(0, genesis_payload().block_hash),
            l2_time=GENESIS_TIME,
            system_config=SystemConfig(b"\x01" * 20, ZERO_HASH, b"\x01" + bytes(31), 30_000_000),
        ),
        block_time=2,
        max_sequencer_drift=600,
        seq_window_size=20,
        channel_timeout=10,
        l1_chain_id=900,
        l2_chain_id=901,
        fork_times=dict.fromkeys(ALL_FORKS, 0) if fork_times is None else dict(fork_times),
        batch_inbox=b"\x02" * 20,
        deposit_contract=b"\x03" * 20,
        l1_system_config=b"\x04" * 20,
        chain_op_config=ChainOpConfig(6, 50, 250),
    )
    return msgspec.structs.replace(config, **changes)


def chain_with(fork_times: Mapping[str, int] | None = None, l1_step: int = 12, **changes: object) -> ChainFixture:
    """Return a chain with these fork times, seconds between L1 blocks, and fields of the rollup config."""
    return ChainFixture(make_rollup(fork_times, **changes), l1_step)
