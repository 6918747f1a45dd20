"""A rollup in one process: a sequencer and a verifier with an embedded engine each, the batcher's encoding between
them, and a synthetic L1. The verifier builds derived blocks through the Engine API, so that equal block hashes mean
equal attributes and equal execution."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded, NeedL1Block, NeedL2Blocks
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.engine.sequencer.block_production import sequencer_attributes
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.block_refs import l2_ref_of_payload, system_config_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.engine_json import attributes_to_json, envelope_from_json, payload_to_json
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import L1Chain, parse_l1_chain
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import (
    BlobRef,
    Hash,
    InboxTransaction,
    L1Block,
    L1Header,
    L2BlockContent,
    L2BlockRef,
    Log,
)
from rollup_node.tools.batcher import channels
from rollup_node.tools.batcher.batches import L2Block, parse_block, singular_batch, span_batch
from rollup_node.tools.batcher.driver import Fees, dynamic_fee_transaction
from rollup_node.tools.devnet import files
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.engine.backend import L2Backend, payload_of
from rollup_node.tools.devnet.engine.engine_api import EngineApi
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.evm.state import State
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from rollup_node.tools.devnet.settings import parse
from rollup_node.tools.devnet.traffic import deposit_call

START = 1_800_000_000
GWEI = 10**9
CALLDATA_TYPE, BLOB_TYPE = 2, 3
NEWEST = channels.ChannelConfig(spans=True, blobs=True, compression=channels.Compression.BROTLI)


class InProcessEngine:
    """An embedded engine, called through its Engine API in the versions of each block's forks."""

    def __init__(self, genesis: bytes) -> None:
        self.backend = L2Backend(parse_genesis(genesis))
        self._methods = EthApi(self.backend, "small rollup").methods() | EngineApi(self.backend).methods()

    def build(self, parent: Hash, attributes: PayloadAttributes) -> ExecutionPayload:
        """Build a block on `parent` and makes it the head."""
        rules = self.backend.spec.schedule.l2(attributes.timestamp)
        version = f"engine_forkchoiceUpdatedV{rules.attributes_version}"
        job = self._methods[version](_heads(parent), attributes_to_json(attributes))["payloadId"]
        payload = envelope_from_json(self._methods[f"engine_getPayloadV{rules.get_payload_version}"](job))
        beside: tuple[Any, ...] = () if payload.parent_beacon_root is None else ([], to_hex(payload.parent_beacon_root))
        requests: tuple[list[str]] | tuple[()] = ([],) if rules.new_payload_version > 3 else ()
        insert = self._methods[f"engine_newPayloadV{rules.new_payload_version}"]
        status = insert(payload_to_json(payload), *beside, *requests)
        assert status["status"] == "VALID", status
        self._methods[version](_heads(payload.block_hash))
        return payload

    @property
    def head(self) -> Block:
        """The head."""
        return self.backend.chain.head

    def block(self, number: int) -> Block:
        """Return the canonical block with a number."""
        result = self.backend.chain.at(number)
        assert result is not None
        return result

    def batch_block(self, number: int) -> L2Block:
        """Return a block as the batcher parses it."""
        return parse_block(number, from_hex(self._methods["debug_getRawBlock"](hex(number))))

    def state(self) -> State:
        """Return the state after the head."""
        return State(self.backend.store, self.head.header.state_root)


class SmallRollup:
    """`forks` are values of --fork, `channel` the wanted channel configuration, `pace` the L1 and L2 block times in
    seconds. `linked`: the dependency set has another chain, for which the contracts have their flag unless `flagged` is
    False. `start` is the time of both genesis blocks, `contracts` are more accounts of the L2 genesis, `rollup` has
    members of rollup.json, such as the chain ids. `changes` are of the rollup config."""

    def __init__(
        self,
        *forks: str,
        l2_alloc: Path | None = None,
        channel: channels.ChannelConfig = NEWEST,
        pace: tuple[int, int] = (2, 1),
        linked: bool = False,
        flagged: bool = True,
        start: int = START,
        contracts: Mapping[str, Any] = MappingProxyType({}),
        rollup: Mapping[str, Any] = MappingProxyType({}),
        **changes: Any,
    ) -> None:
        self._l1_block_time = pace[0]
        words = [f"--l1-block-time={pace[0]}", f"--l2-block-time={pace[1]}"]
        settings = parse([*words, *(word for fork in forks for word in ("--fork", fork))])
        genesis = l2_genesis(settings.forks, start, l2_alloc, linked and flagged)
        self.chain_id = genesis["config"]["chainId"] = rollup.get("l2_chain_id", files.L2_CHAIN_ID)
        genesis["alloc"] |= contracts
        self.genesis = json.dumps(genesis).encode()
        self.sequencer, self.verifier = InProcessEngine(self.genesis), InProcessEngine(self.genesis)
        self.l1 = [self._l1_genesis(start)]
        zero = self.sequencer.head
        value = files.rollup_json(settings, to_hex(self.l1[0].header.hash), to_hex(zero.hash), start)
        self.rollup = json.dumps({**value, **rollup}).encode()
        config = parse_rollup_config(self.rollup).config
        self.config: RollupConfig = msgspec.structs.replace(config, dependency_set_size=1 + linked, **changes)
        self._l1_chain = self._chain_of_l1()
        self._channel = channel
        self.channels: list[channels.ChannelConfig] = []
        self.dropped: list[Dropped] = []
        self._posted = 0
        self._blobs: dict[Hash, bytes] = {}
        self._nonce = 0
        self._tip = self._safe = l2_ref_of_payload(self.config, payload_of(zero))
        self._tip_config = self._safe_config = self.config.genesis.system_config
        self._deriver = Deriver(self.config, self._l1_chain)
        self._deriver.reset(self.l1[0].ref.id, self.config.genesis.system_config)

    @property
    def safe(self) -> L2BlockRef:
        """The verifier's safe head."""
        return self._safe

    def run(self, seconds: int) -> None:
        """Sequences until `seconds` after genesis, and mines L1 blocks until all of it is derived."""
        while self._tip.timestamp < self.config.genesis.l2_time + seconds:
            self._mine()
            while self._tip.timestamp < self.l1[-1].header.timestamp:
                self._sequence()
            self._derive()
        while self._safe.number < self._tip.number:
            late = self.l1[-1].header.timestamp - self._tip.timestamp
            assert late < 20 * self._l1_block_time, f"stuck at {self._safe}: {self.dropped}"
            self._mine()
            self._derive()

    # --- L1 --------------------------------------------------------------------------------------------------------

    def _l1_genesis(self, start: int) -> L1Block:
        return _l1_block(0, start, bytes(32))

    def _chain_of_l1(self) -> L1Chain:
        return parse_l1_chain(json.dumps(files.l1_chain_config()).encode(), files.L1_CHAIN_ID)

    def _mine(self) -> None:
        number, parent = len(self.l1), self.l1[-1].header
        block = _l1_block(number, parent.timestamp + self._l1_block_time, parent.hash)
        deposits = (_deposit(),) if block.header.number % 3 == 1 else ()
        inbox = tuple(self._post()) if self._posted < self._tip.number else ()
        self.l1.append(msgspec.structs.replace(block, deposits=deposits, inbox=inbox))

    def _post(self) -> Iterator[InboxTransaction]:
        """Yield the transactions of one channel with all L2 blocks that are not posted yet."""
        blocks = [self.sequencer.batch_block(number) for number in range(self._posted + 1, self._tip.number + 1)]
        l1_time = self.l1[-1].header.timestamp
        channel = channels.supported_config(self._channel, self.config.schedule(), l1_time, blocks[0].origin_time)
        self.channels.append(channel)
        batches = [block.batch for block in blocks]
        if channel.spans:
            encoded = [span_batch(batches, self.config.genesis.l2_time, self._origin_before(blocks[0].number))]
        else:
            encoded = [singular_batch(batch) for batch in batches]
        body = channels.channel_body(encoded, channel.compression)
        self._posted = self._tip.number
        for frame in channels.frames(keccak256(body)[:16], body, len(body) // 2 + 60):
            data = channels.batcher_data([frame])
            if channel.blobs:
                key = b"\x01" + keccak256(data)[1:]
                self._blobs[key] = data
                yield InboxTransaction(BLOB_TYPE, files.BATCHER_KEY.address, b"", (BlobRef(frame.number, key),))
            else:
                yield InboxTransaction(CALLDATA_TYPE, files.BATCHER_KEY.address, data, ())

    def _origin_before(self, number: int) -> int:
        return 0 if number == 1 else self.sequencer.batch_block(number - 1).batch.epoch.number

    # --- the sequencer ---------------------------------------------------------------------------------------------

    def _sequence(self) -> None:
        time = self._tip.timestamp + self.config.block_time
        origin = self._tip.l1_origin.number
        if origin + 1 < len(self.l1) and self.l1[origin + 1].header.timestamp <= time:
            origin += 1
        self._send()
        attributes = sequencer_attributes(
            self.config, self._l1_chain, self._tip, self._tip_config, self.l1[origin], recover=False
        )
        payload = self.sequencer.build(self._tip.hash, attributes)
        self._tip = l2_ref_of_payload(self.config, payload)
        self._tip_config = system_config_of_payload(self.config, payload)

    def _send(self) -> None:
        fees = Fees(tip=GWEI, cap=100 * GWEI)
        raw = dynamic_fee_transaction(
            files.TRANSFER_KEY, self.chain_id, self._nonce, files.RECEIVER_KEY.address, GWEI, b"", 21_000, fees
        )
        self.sequencer.backend.send(raw)
        self._nonce += 1

    # --- the verifier ----------------------------------------------------------------------------------------------

    def _derive(self) -> None:
        deriver = self._deriver
        while True:
            match deriver.step(self._safe, self._safe_config):
                case Dropped() as dropped:
                    self.dropped.append(dropped)
                case NeedL1Block(number=number) if number < len(self.l1):
                    deriver.add_l1_block(self.l1[number])
                case NeedDecoded(key=key, task=task):
                    deriver.add_decoded(key, tasks.run(task))
                case NeedBlobs(block=block, blobs=blobs):
                    deriver.add_blobs(
                        block.hash, [BlobContent(blob.hash, self._blobs[blob.hash], None) for blob in blobs]
                    )
                case NeedL2Blocks(first=first, last=last):
                    deriver.add_l2_blocks(first, last, [self._content(number) for number in range(first, last + 1)])
                case AttributesReady(attributes=attributes):
                    payload = self.verifier.build(self._safe.hash, attributes)
                    self._safe = l2_ref_of_payload(self.config, payload)
                    self._safe_config = system_config_of_payload(self.config, payload)
                case _:
                    return

    def _content(self, number: int) -> L2BlockContent:
        payload = payload_of(self.verifier.block(number))
        return L2BlockContent(l2_ref_of_payload(self.config, payload), payload.transactions)


def _heads(head: Hash) -> Mapping[str, Any]:
    return {"headBlockHash": to_hex(head), "safeBlockHash": to_hex(bytes(32)), "finalizedBlockHash": to_hex(bytes(32))}


def _l1_block(number: int, timestamp: int, parent: Hash) -> L1Block:
    header = L1Header(
        hash=keccak256(b"l1 %d" % number),
        number=number,
        parent_hash=parent,
        timestamp=timestamp,
        mix_hash=keccak256(b"mix %d" % number),
        base_fee=GWEI,
        excess_blob_gas=0,
        parent_beacon_root=keccak256(b"beacon %d" % number),
    )
    return L1Block(header, (), (), ())


def _deposit() -> Log:
    """Return a user's deposit that mints a bit."""
    address = files.RECEIVER_KEY.address
    data = deposit_call(address, address, mint=GWEI, value=GWEI, gas=100_000)
    topics = tuple(data[at : at + 32] for at in range(0, 128, 32))
    return Log(files.PORTAL, topics, data[128:], 0)
