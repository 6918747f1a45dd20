"""The batcher between an embedded L1, an embedded engine and a node's sync status."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.blobs.tasks import decode_blob
from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import read_batches
from rollup_node.stages.derivation.codec.frames import parse_frames
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.batcher.channels import SAFE_TIMEOUT, ChannelConfig, Compression
from rollup_node.tools.batcher.driver import (
    BatcherConfig,
    BatchSubmitter,
    BlockUnavailable,
    parse_arguments,
)
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.files import BATCHER_KEY, INBOX, l1_genesis, rollup_json
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.settings import parse
from tests.support.chains.l2_test_chain import START, L2TestChain
from tests.support.servers.http_listener import json_rpc_app, listening
from tests.support.timing.conditions import until

SPAN_BLOBS = ChannelConfig(True, True, Compression.BROTLI)
SINGULAR_CALLDATA = ChannelConfig(False, False, Compression.ZLIB)


class BatcherHarness:
    """The chains that the batcher works between; `step` polls once."""

    def __init__(self, tmp_path: Path, channel: ChannelConfig) -> None:
        self.l2 = L2TestChain("jovian")
        self.engine = self.l2.backend()
        self.l1 = L1Backend(l1_genesis(START), 2)
        genesis = self.engine.chain.genesis
        text = json.dumps(rollup_json(parse(()), to_hex(self.l1.chain.genesis.hash), to_hex(genesis.hash), START))
        self.rollup = parse_rollup_config(text.encode()).config
        self.safe = genesis
        self.state_file = tmp_path / "batcher.json"
        self.channel = channel
        self.missing: set[str] = set()
        self.not_found = 0

    def mine(self) -> None:
        self.l1.mine(self.l1.chain.head.header.timestamp + 2)

    def extend(self, count: int) -> None:
        """Add L2 blocks with a transaction each."""
        for _ in range(count):
            number = self.engine.chain.head.number
            self.l2.extend(self.engine, self.l2.transfer(0, number))

    def status(self) -> dict[str, Any]:
        heads = {"safe_l2": self.safe, "unsafe_l2": self.engine.chain.head}
        return {name: {"number": block.number, "hash": to_hex(block.hash)} for name, block in heads.items()}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BatchSubmitter]:
        """Provide a submitter that is connected to both chains, once L1 has a block."""
        l1_methods, l2_methods = EthApi(self.l1, "l1").methods(), EthApi(self.engine, "l2").methods()
        raw_block = l2_methods["debug_getRawBlock"]

        def raw_block_unless_missing(number: str) -> Any:
            if number not in self.missing:
                return raw_block(number)
            self.not_found += 1
            return "0x"

        l2_methods["debug_getRawBlock"] = raw_block_unless_missing
        apps = map(json_rpc_app, (l1_methods, l2_methods, {"optimism_syncStatus": self.status}))
        async with listening(*apps) as (l1, engine, node):
            files = (self.rollup, BATCHER_KEY, self.channel, self.state_file)
            submitter = BatchSubmitter(BatcherConfig(l1, engine, node, *files))
            self.mine()
            try:
                yield submitter
            finally:
                await submitter.close()

    def batches(self) -> list[SingularBatch | SpanBatch]:
        """Return the batches in the inbox transactions of the L1 head."""
        head, data = self.l1.chain.head, list[bytes]()
        for entry in head.executed:
            body = entry.transaction.body
            assert (body.to, entry.transaction.sender) == (INBOX, BATCHER_KEY.address)
            data += [body.data] if body.data else []
        data += [decode_blob(blob.content) for _, blob in self.l1.blobs_at(head.number) or ()]
        channel = b""
        for item in data:
            frames = parse_frames(item)
            assert isinstance(frames, list)
            channel += b"".join(frame.data for frame in frames)
        rules = SpanRules(self.rollup.l2_chain_id, self.rollup.genesis.l2_time, self.rollup.block_time)
        result = read_batches(channel, 1_000_000, True, rules)
        return [batch for batch in result if isinstance(batch, SingularBatch | SpanBatch)]


@pytest.fixture
def harness(tmp_path: Path) -> BatcherHarness:
    return BatcherHarness(tmp_path, SINGULAR_CALLDATA)


@pytest.mark.parametrize("channel", [SPAN_BLOBS, SINGULAR_CALLDATA], ids=["span blobs", "singular calldata"])
async def test_unsafe_blocks_are_posted_once(tmp_path: Path, channel: ChannelConfig) -> None:
    harness = BatcherHarness(tmp_path, channel)
    async with harness.running() as submitter:
        await submitter.step()
        harness.extend(3)
        for _ in range(2):
            await submitter.step()
            assert submitter.channels == 1, "one channel per L1 block"
        harness.mine()
        batches = harness.batches()
        if channel.spans:
            (span,) = batches
            assert isinstance(span, SpanBatch) and span.block_count == len(span.transactions) == 3
        else:
            assert [len(batch.transactions) for batch in batches] == [1, 1, 1]
        await submitter.step()
        assert submitter.channels == 1, "no new blocks"
        harness.extend(1)
        await submitter.step()
        assert submitter.channels == 2
        harness.mine()
        assert len(harness.batches()) == 1
    state = json.loads(harness.state_file.read_text())
    assert (state["channels"], state["restarts"], state["blobs"]) == (2, 0, 2 if channel.blobs else 0)


async def test_a_transaction_lost_by_l1_restarts_from_the_safe_head(
    harness: BatcherHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    async with harness.running() as submitter:
        harness.extend(2)
        await submitter.step()
        (pending,) = harness.l1.pool.ready(0, lambda address: 0)
        harness.l1.pool.remove([pending])
        harness.mine()
        await submitter.step()
        await submitter.step()
        assert submitter.channels == 2
        harness.mine()
        assert len(harness.batches()) == 2
    assert "restarting from the safe head" in capsys.readouterr().out


async def test_a_channel_that_does_not_become_safe_is_posted_again(harness: BatcherHarness) -> None:
    async with harness.running() as submitter:
        harness.extend(1)
        await submitter.step()
        for _ in range(SAFE_TIMEOUT + 1):
            harness.mine()
        await submitter.step()
        await submitter.step()
        assert submitter.channels == 2


async def test_a_block_that_the_engine_lacks_is_posted_when_it_is_there(harness: BatcherHarness) -> None:
    """op-geth answers with no bytes."""
    async with harness.running() as submitter:
        harness.extend(2)
        harness.missing = {"0x2"}
        with pytest.raises(BlockUnavailable, match="no block 2"):
            await submitter.step()
        running = asyncio.create_task(submitter.run())
        await until(lambda: running.done() or harness.not_found == 2)
        harness.missing = set()
        await until(lambda: running.done() or submitter.channels)
        assert not running.done()
        running.cancel()
        harness.mine()
        assert len(harness.batches()) == 2


async def test_a_reorg_of_the_unsafe_chain_restarts_from_the_safe_head(harness: BatcherHarness) -> None:
    async with harness.running() as submitter:
        harness.extend(2)
        await submitter.step()
        harness.mine()
        harness.engine.set_head(harness.engine.chain.genesis)
        for key in (1, 2, 3):
            harness.l2.extend(harness.engine, harness.l2.transfer(key, 0))
        await submitter.step()
        assert submitter.channels == 1
        await submitter.step()
        assert submitter.channels == 2
        harness.mine()
        assert len(harness.batches()) == 3


def test_arguments(tmp_path: Path) -> None:
    rollup, key = tmp_path / "rollup.json", tmp_path / "key"
    rollup.write_text(json.dumps(rollup_json(parse(()), to_hex(bytes(32)), to_hex(bytes(32)), START)))
    key.write_text("0x" + BATCHER_KEY.secret.hex() + "\n")
    required = ["--l1=a", "--engine=b", "--node=c", f"--rollup={rollup}", f"--key-file={key}"]
    config = parse_arguments(required)
    assert (config.l1, config.engine, config.node, config.key) == ("a", "b", "c", BATCHER_KEY)
    assert config.channel == SPAN_BLOBS and config.state_file is None
    assert config.rollup.batch_inbox == INBOX
    other = parse_arguments([*required, "--batch=singular", "--da=calldata", "--compression=zlib"])
    assert other.channel == SINGULAR_CALLDATA
    assert parse_arguments([*required, "--add=4=02c0", "--add=9=05"]).added == {4: b"\x02\xc0", 9: b"\x05"}
