"""The batcher program: reads the sequencer's unsafe blocks and posts them to L1 until a signal stops it."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.batcher.batches import BatchBlock, L2Block, parse_block, singular_batch, span_batch
from rollup_node.tools.batcher.channels import (
    CHANNEL_ID_BYTES,
    MAX_BLOB_DATA,
    ChannelConfig,
    ChannelManager,
    Compression,
    SubmittedChannel,
    batcher_data,
    channel_body,
    encode_blob,
    frames,
    supported_config,
)

if TYPE_CHECKING:
    from rollup_node.tools.batcher.alt_da import AltDaBatcher

from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keys import private_key
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.batcher.kzg_proofs import compute_proof


@dataclass(frozen=True)
class Key:
    """A secp256k1 key with its address."""

    secret: bytes

    @property
    def address(self) -> Address:
        """The key's Ethereum address."""
        return private_key(self.secret).public_key.to_canonical_address()

    def sign(self, digest: Hash) -> tuple[int, int, int]:
        """Return the recoverable signature (y parity, r, s) of a digest."""
        return private_key(self.secret).sign_msg_hash(digest).vrs


@dataclass(frozen=True)
class Fees:
    """Fee caps in wei; `blob_cap` is per unit of blob gas."""

    tip: int
    cap: int
    blob_cap: int = 0


def dynamic_fee_transaction(
    key: Key, chain_id: int, nonce: int, to: Address | None, value: int, data: bytes, gas: int, fees: Fees
) -> bytes:
    """Return a signed type 2 transaction, encoded; `value` in wei."""
    fields: list[rlp.Item] = [
        *map(_integer, (chain_id, nonce, fees.tip, fees.cap, gas)),
        to or b"",
        _integer(value),
        data,
        [],
    ]
    return b"\x02" + rlp.encode(_signed(key, 2, fields))


@dataclass(frozen=True)
class BlobTransaction:
    """A type 3 transaction: `pooled` is its network form with the sidecar, `hash` that of its canonical form."""

    pooled: bytes
    hash: Hash
    versioned_hashes: tuple[Hash, ...]


def blob_transaction(
    key: Key, chain_id: int, nonce: int, to: Address, blobs: Sequence[bytes], gas: int, fees: Fees
) -> BlobTransaction:
    """Return a signed type 3 transaction with one proof per blob. Takes about 100 ms of CPU per blob."""
    commitments = [blob_to_commitment(blob) for blob in blobs]
    proofs = [compute_proof(blob, commitment) for blob, commitment in zip(blobs, commitments, strict=True)]
    hashes = tuple(map(versioned_hash, commitments))
    fields: list[rlp.Item] = [
        *map(_integer, (chain_id, nonce, fees.tip, fees.cap, gas)),
        to,
        b"",
        b"",
        [],
        _integer(fees.blob_cap),
        list(hashes),
    ]
    signed = _signed(key, 3, fields)
    pooled = b"\x03" + rlp.encode([signed, list(blobs), list[rlp.Item](commitments), list[rlp.Item](proofs)])
    return BlobTransaction(pooled, keccak256(b"\x03" + rlp.encode(signed)), hashes)


def _signed(key: Key, kind: int, fields: list[rlp.Item]) -> list[rlp.Item]:
    signature = key.sign(keccak256(bytes((kind,)) + rlp.encode(fields)))
    return [*fields, *map(_integer, signature)]


def _integer(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


CALLDATA_FRAME_BYTES = 60_000
BLOBS_PER_TRANSACTION = 6
GWEI = 10**9
FEES = Fees(tip=2 * GWEI, cap=200 * GWEI, blob_cap=200 * GWEI)
BASE_GAS = 21_000
CALLDATA_GAS_PER_BYTE = 40
CHALLENGE_GAS, CHALLENGE_GAS_PER_BYTE = 60_000, 60
NO_BLOCK = "0x"
"""What op-geth returns for a block that it does not have."""

POLL_SECONDS = 0.5
ADD_HELP = "post a block with a transaction behind its own, which it does not have; may be repeated"


@dataclass(frozen=True)
class BatcherConfig:
    """Endpoints, the chain, the signing key and the wanted channel configuration.

    With a `da_server` data items are commitments; `resolves_challenges` publishes on L1 the inputs that it loses.
    `added` are transactions for batches of blocks, by number, which the blocks do not have."""

    l1: str
    engine: str
    node: str
    rollup: RollupConfig
    key: Key
    channel: ChannelConfig
    state_file: Path | None
    da_server: str | None = None
    resolves_challenges: bool = True
    added: Mapping[int, bytes] = field(default_factory=dict)


class BlockUnavailable(Exception):
    """The engine does not have a block that the node has announced: it has lost blocks in a restart, say."""


class BatchSubmitter:
    """The I/O around `ChannelManager`: reads from L1, the engine and the node, and sends transactions to L1."""

    def __init__(self, config: BatcherConfig) -> None:
        self._config = config
        self._l1 = JsonRpcClient(config.l1)
        self._engine = JsonRpcClient(config.engine)
        self._node = JsonRpcClient(config.node)
        self._manager = ChannelManager()
        self._chain_id = 0
        self._alt_da: AltDaBatcher | None = None
        if config.da_server is not None:
            # Imported here alone: it brings aiohttp with it.
            from rollup_node.tools.batcher import alt_da as commitments

            alt_da, resolves = config.rollup.alt_da, config.resolves_challenges
            window = 0 if alt_da is None else alt_da.challenge_window
            self._alt_da = commitments.AltDaBatcher(config.da_server, self._l1, self._send_challenge, window, resolves)
        self.channels = 0
        self.blobs = 0

    async def run(self) -> None:
        """Poll and post until cancelled; a failed request is repeated at the next poll."""
        while True:
            try:
                await self.step()
            except (EndpointError, RpcFailure, BlockUnavailable) as error:
                _print(f"request failed, retrying: {error}")
            await asyncio.sleep(POLL_SECONDS)

    async def step(self) -> None:
        """One poll: follows the safe head, and submits a channel where there are blocks for one.

        Raises EndpointError or RpcFailure when an endpoint does not answer, and BlockUnavailable."""
        if self._alt_da is not None:
            await self._alt_da.step()
        status = await self._node.call("optimism_syncStatus")
        safe, unsafe = status["safe_l2"], status["unsafe_l2"]
        if int(unsafe["hash"], 16) == 0:
            return
        self._manager.update_safe_head(safe["number"], bytes.fromhex(safe["hash"][2:]))
        head = await self._l1.call("eth_getBlockByNumber", "latest", False)
        l1_head, l1_time = int(head["number"], 16), int(head["timestamp"], 16)
        if self._manager.timed_out(l1_head) or await self._transaction_lost():
            _print("submitted channel timed out or left L1, restarting from the safe head")
            self._manager.restart()
            return
        numbers = self._manager.next_blocks(unsafe["number"], l1_head)
        if numbers:
            blocks = [await self._block(number) for number in numbers]
            await self._submit(blocks, l1_head, l1_time)

    async def _transaction_lost(self) -> bool:
        """Whether a submitted transaction is neither in L1's chain nor in its pool."""
        for channel in self._manager.submitted:
            for transaction in channel.transactions:
                if await self._l1.call("eth_getTransactionByHash", to_hex(transaction)) is None:
                    return True
        return False

    async def _block(self, number: int) -> L2Block:
        raw = await self._engine.call("debug_getRawBlock", hex(number))
        if raw in (None, NO_BLOCK):
            raise BlockUnavailable(f"the engine has no block {number}")
        return parse_block(number, bytes.fromhex(raw[2:]))

    async def _submit(self, blocks: Sequence[L2Block], l1_head: int, l1_time: int) -> None:
        # The engine may reorg between two reads, so the blocks need not link.
        parents = [None, *(block.hash for block in blocks)]
        linked = all(parent in (None, block.batch.parent_hash) for parent, block in zip(parents, blocks, strict=False))
        if not linked or not self._manager.extends(blocks[0].batch.parent_hash):
            _print("unsafe chain reorged, restarting from the safe head")
            self._manager.restart()
            return
        parent_origin = (await self._block(blocks[0].number - 1)).batch.epoch.number if blocks[0].number > 1 else 0
        schedule = self._config.rollup.schedule()
        channel = supported_config(self._config.channel, schedule, l1_time, blocks[0].origin_time)
        items = _data_items(self._encode(blocks, parent_origin, channel), channel)
        hashes = await (self._send_blobs(items) if channel.blobs else self._send_calldata(items))
        last = blocks[-1]
        self._manager.add(SubmittedChannel(last.number, last.hash, tuple(hashes), l1_head))
        self.channels += 1
        self._write_state()
        batch, da = "span" if channel.spans else "singular", "blobs" if channel.blobs else "calldata"
        _print(
            f"submitted channel first={blocks[0].number} last={last.number} batch={batch} "
            f"compression={channel.compression.value} da={da} transactions={len(hashes)}"
        )

    def _encode(self, blocks: Sequence[L2Block], parent_origin: int, channel: ChannelConfig) -> bytes:
        batches = [self._batch(block) for block in blocks]
        if channel.spans:
            encoded = [span_batch(batches, self._config.rollup.genesis.l2_time, parent_origin)]
        else:
            encoded = [singular_batch(batch) for batch in batches]
        return channel_body(encoded, channel.compression)

    def _batch(self, block: L2Block) -> BatchBlock:
        added = self._config.added.get(block.number)
        if added is None:
            return block.batch
        return replace(block.batch, transactions=(*block.batch.transactions, added))

    async def _next_nonce(self) -> int:
        if not self._chain_id:
            self._chain_id = int(await self._l1.call("eth_chainId"), 16)
        address = to_hex(self._config.key.address)
        return int(await self._l1.call("eth_getTransactionCount", address, "pending"), 16)

    async def _send_blobs(self, items: Sequence[bytes]) -> list[bytes]:
        nonce, hashes = await self._next_nonce(), list[bytes]()
        key, inbox = self._config.key, self._config.rollup.batch_inbox
        for at in range(0, len(items), BLOBS_PER_TRANSACTION):
            blobs = [encode_blob(item) for item in items[at : at + BLOBS_PER_TRANSACTION]]
            built = blob_transaction(key, self._chain_id, nonce + len(hashes), inbox, blobs, BASE_GAS, FEES)
            await self._l1.call("eth_sendRawTransaction", to_hex(built.pooled))
            hashes.append(built.hash)
            self.blobs += len(blobs)
        return hashes

    async def _send_calldata(self, items: Sequence[bytes]) -> list[bytes]:
        nonce, hashes = await self._next_nonce(), list[bytes]()
        key, inbox = self._config.key, self._config.rollup.batch_inbox
        if self._alt_da is not None:
            items = [await self._alt_da.store(item) for item in items]
        for item in items:
            gas = BASE_GAS + CALLDATA_GAS_PER_BYTE * len(item)
            raw = dynamic_fee_transaction(key, self._chain_id, nonce + len(hashes), inbox, 0, item, gas, FEES)
            await self._l1.call("eth_sendRawTransaction", to_hex(raw))
            hashes.append(keccak256(raw))
            if self._alt_da is not None:
                self._alt_da.sent(item, hashes[-1])
        return hashes

    async def _send_challenge(self, calldata: bytes) -> Hash:
        """Return a transaction to the challenge contract, which copies its calldata into a log."""
        nonce, alt_da = await self._next_nonce(), self._config.rollup.alt_da
        assert alt_da is not None and alt_da.challenge_contract is not None
        gas = CHALLENGE_GAS + CHALLENGE_GAS_PER_BYTE * len(calldata)
        contract = alt_da.challenge_contract
        raw = dynamic_fee_transaction(self._config.key, self._chain_id, nonce, contract, 0, calldata, gas, FEES)
        await self._l1.call("eth_sendRawTransaction", to_hex(raw))
        _print(f"challenge transaction sent bytes={len(calldata)}")
        return keccak256(raw)

    def _write_state(self) -> None:
        path = self._config.state_file
        if path is not None:
            fresh = path.with_suffix(".new")
            fresh.write_text(
                json.dumps(
                    {
                        "channels": self.channels,
                        "blobs": self.blobs,
                        "restarts": self._manager.restarts,
                        "challenges": 0 if self._alt_da is None else self._alt_da.challenges,
                    }
                )
            )
            fresh.replace(path)

    async def close(self) -> None:
        """Close the connections."""
        for client in (self._l1, self._engine, self._node):
            await client.close()
        if self._alt_da is not None:
            await self._alt_da.close()


def _data_items(body: bytes, channel: ChannelConfig) -> list[bytes]:
    # One frame per blob, beside the derivation version byte.
    size = MAX_BLOB_DATA - 1 if channel.blobs else CALLDATA_FRAME_BYTES
    return [batcher_data([frame]) for frame in frames(os.urandom(CHANNEL_ID_BYTES), body, size)]


def _print(text: str) -> None:
    print(f"batcher: {text}", flush=True)


def _added(entry: str) -> tuple[int, bytes]:
    number, _, text = entry.partition("=")
    return int(number), bytes.fromhex(text)


def parse_arguments(argv: Sequence[str]) -> BatcherConfig:
    """Return the configuration from command-line arguments."""
    parser = argparse.ArgumentParser(
        prog="batcher", description="Posts a sequencer's blocks to L1.", allow_abbrev=False
    )
    parser.add_argument("--l1", required=True, help="L1 JSON-RPC")
    parser.add_argument("--engine", required=True, help="the sequencer's execution engine, JSON-RPC without JWT")
    parser.add_argument("--node", required=True, help="the sequencer's rollup node, JSON-RPC")
    parser.add_argument("--rollup", type=Path, required=True, help="the chain's rollup.json")
    parser.add_argument("--key-file", type=Path, required=True, help="file with the batcher's key in hex")
    parser.add_argument("--batch", choices=("span", "singular"), default="span", help="span: once Delta is active")
    parser.add_argument("--da", choices=("blobs", "calldata"), default="blobs", help="blobs: once Ecotone is active")
    parser.add_argument("--compression", choices=("brotli", "zlib"), default="brotli", help="brotli: once Fjord is")
    parser.add_argument("--da-server", help="DA server to keep the batches; their commitments are posted as calldata")
    parser.add_argument("--challenges", choices=("resolve", "expire"), default="resolve", help="of inputs it has lost")
    parser.add_argument("--state-file", type=Path, help="JSON file with counts of channels and blobs, kept current")
    parser.add_argument("--add", action="append", default=[], type=_added, metavar="BLOCK=HEX", help=ADD_HELP)
    args = parser.parse_args(argv)
    return BatcherConfig(
        l1=args.l1,
        engine=args.engine,
        node=args.node,
        rollup=parse_rollup_config(args.rollup.read_bytes()).config,
        key=Key(bytes.fromhex(args.key_file.read_text().strip().removeprefix("0x"))),
        channel=ChannelConfig(
            args.batch == "span", args.da == "blobs" and not args.da_server, Compression(args.compression)
        ),
        state_file=args.state_file,
        da_server=args.da_server,
        resolves_challenges=args.challenges == "resolve",
        added=dict(args.add),
    )


async def _run(config: BatcherConfig) -> None:
    submitter = BatchSubmitter(config)
    try:
        await submitter.run()
    finally:
        await submitter.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal stops it."""
    config = parse_arguments(sys.argv[1:] if argv is None else argv)
    try:
        asyncio.run(_run(config))
    except KeyboardInterrupt:
        return 0
    return 0
