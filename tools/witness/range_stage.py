"""The engine stage of a range of a witness: a replay that keeps the L2 blocks it reads, and says what it has read.

It starts as kona-client does: a channel timeout before the origin of the safe head, with that block's system
config [WIT6]."""

from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.checks.execution import engine_client
from rollup_node.stages.engine.calls.heads import L2BlockInfo
from rollup_node.stages.engine.starts.start_search import Base
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested
from rollup_node.stages.messages.engine import AttributesReady, PipelineStart
from rollup_node.stages.protocol.engine_json import attributes_to_json
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND, TemporaryError
from rollup_node.stages.protocol.headers import encode_header
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import AccountProof, ProofError
from rollup_node.stages.protocol.payloads import ExecutionPayload, output_preimage, payload_header
from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId, Hash
from rollup_node.tools.inspect.l2_source import TIMEOUT, BlockSource, SourceError
from rollup_node.tools.inspect.replay import BlockComparison
from rollup_node.tools.inspect.replay_stage import ReplayConfig, ReplayFailed, ReplayStage
from rollup_node.tools.witness.packs import (
    L2Pack,
    PackFolder,
    RangeResult,
    base_name,
    execution_name,
    l2_name,
    range_name,
)

MESSAGE_PASSER = bytes.fromhex("4200000000000000000000000000000000000016")
EXECUTE = "debug_executePayload"
EXECUTE_SECONDS = 60.0


class WitnessRangeConfig(msgspec.Struct, frozen=True):
    """Derives the range of `replay` and keeps packs in `folder`, at last the RangeResult.

    With `execution` also what executing its blocks reads."""

    replay: ReplayConfig
    folder: str
    execution: bool = False


class ExecutionWitness(msgspec.Struct):
    """The preimages in the answer to debug_executePayload: nodes of the state, codes and keys."""

    state: list[str] = []
    codes: list[str] = []
    keys: list[str] = []


class RecordingSource:
    """A source of L2 blocks that keeps those that it returns."""

    def __init__(self, source: BlockSource, packs: PackFolder) -> None:
        self._source, self._packs = source, packs

    async def payload(self, number: int) -> ExecutionPayload | None:
        payload = await self._source.payload(number)
        if payload is not None:
            header = encode_header(payload_header(payload))
            if keccak256(header) != payload.block_hash:
                raise SourceError(f"L2 block {number} has a header that its payload does not show: begin after it")
            self._packs.put(l2_name(number), L2Pack(payload.block_hash, header, payload.transactions))
        return payload

    async def close(self) -> None:
        await self._source.close()


class WitnessRangeStage(ReplayStage):
    """State, beside that of the replay: where reading began."""

    def __init__(self, config: WitnessRangeConfig, bus: Bus, meter: Meter) -> None:
        super().__init__(config.replay, bus, meter)
        self._packs, self._execution = PackFolder(Path(config.folder)), config.execution
        self._base: BlockId | None = None
        self._client = _client(config.replay)

    async def close(self) -> None:
        """Close the source and the client."""
        await super().close()
        if self._client is not None:
            await self._client.close()

    def _open_source(self) -> BlockSource:
        return RecordingSource(super()._open_source(), self._packs)

    async def _find_start(self) -> PipelineStart:
        start = await super()._find_start()
        self._base = start.base
        self._packs.put(base_name(self._config.first, self._config.last), start.base)
        return start

    async def _search_base(self, safe: L2BlockInfo) -> Base:
        number = self._default_base(safe)
        ref = await self._l1.ref(number)
        if ref is None:
            raise ReplayFailed(f"L1 block {number}, the first to read, does not exist")
        return Base(ref.id, safe.config)

    async def _warn(self, text: str) -> None:
        """Where reading begins stands in the manifest."""

    async def _write_block(self, comparison: BlockComparison) -> None:
        """Blocks are not listed."""

    async def _compare(self, derived: AttributesReady) -> None:
        if self._execution:
            await self._keep_execution(derived)
        try:
            await super()._compare(derived)
        except ExitRequested as end:
            if end.code == 0:
                await self._keep_result(derived)
            raise

    async def _keep_result(self, derived: AttributesReady) -> None:
        first, last = self._config.first, self._config.last
        assert self._base is not None
        result = RangeResult(self._base, derived.derived_from.id, await self._output(first), await self._output(last))
        self._packs.put(range_name(first, last), result)

    async def _output(self, number: int) -> bytes:
        """Return the output preimage of a block: its header has the storage root from Isthmus on [HSH18]."""
        assert self._source is not None
        payload = await self._source.payload(number)
        if payload is None:
            return b""
        root = payload.withdrawals_root
        if root is None:
            root = await self._storage_root(payload)
        return b"" if root is None else output_preimage(payload.state_root, root, payload.block_hash)

    async def _storage_root(self, payload: ExecutionPayload) -> Hash | None:
        """Return the proven storage root of L2ToL1MessagePasser; None without an engine, or if it does not prove it."""
        if self._client is None:
            return None
        try:
            answer = await self._client.call_typed(
                AccountProof, "eth_getProof", to_hex(MESSAGE_PASSER), [], hex(payload.block_number)
            )
            account = answer.account(payload.state_root, MESSAGE_PASSER)
        except (RpcFailure, ProofError):
            return None
        except EndpointError as error:
            raise TemporaryError(f"L2 block {payload.block_number}: {error}") from None
        return None if account is None else account.storage_root

    async def _keep_execution(self, derived: AttributesReady) -> None:
        """Ask the engine for the preimages of a block's execution [WIT8]."""
        number, parent = derived.parent.number + 1, derived.parent.hash
        if self._packs.has(execution_name(number)) or parent == UNKNOWN_HASH:
            return
        assert self._client is not None
        try:
            answer = await self._client.call_typed(
                ExecutionWitness,
                EXECUTE,
                to_hex(parent),
                attributes_to_json(derived.attributes),
                timeout=EXECUTE_SECONDS,
            )
            values = [from_hex(text) for text in (*answer.state, *answer.codes, *answer.keys)]
        except RpcFailure as error:
            missing = "does not serve" if error.code == METHOD_NOT_FOUND else "refuses"
            raise ReplayFailed(f"--execution: the L2 source {missing} {EXECUTE}: {error}") from None
        except HexError as error:
            raise ReplayFailed(f"--execution: the answer to {EXECUTE} is malformed: {error}") from None
        except EndpointError as error:
            raise TemporaryError(f"{EXECUTE} of block {number}: {error}") from None
        self._packs.put(execution_name(number), tuple(values))


def _client(config: ReplayConfig) -> JsonRpcClient | None:
    if config.url is None:
        return None
    return (
        JsonRpcClient(config.url)
        if config.jwt_secret is None
        else engine_client(config.url, config.jwt_secret, TIMEOUT)
    )


build = WitnessRangeStage
