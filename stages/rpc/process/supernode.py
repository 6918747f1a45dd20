"""The root path of a supernode, all of its chains at once [SNO7]; super roots, also of one chain [RPC41 to RPC45]."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from rollup_node.stages.messages import control
from rollup_node.stages.messages.interop import RoundResponse
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import output_root
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L2BlockRef
from rollup_node.stages.rpc import responses
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.process.listener import Exchange, Handler
from rollup_node.stages.rpc.process.node_view import NodeView, answer
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.responses import SafeOutput
from rollup_node.stages.rpc.status.readiness import Readiness


class Supernode:
    """What the root path shows: the views of the chains by id, which rises. Its `config` has what all chains share.

    `verified` is the first chain whose messages are verified, None without one."""

    def __init__(self, chains: Mapping[int, NodeView]) -> None:
        self.chains = dict(sorted(chains.items()))
        self.config = next(iter(self.chains.values())).config
        self.verified = next((node for node in self.chains.values() if node.config.verified), None)

    def sync_statuses(self) -> dict[int, dict[str, Any]]:
        """Return the sync statuses of the chains at this moment."""
        return {chain_id: node.sync_status() for chain_id, node in self.chains.items()}

    def slowest(self, statuses: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
        """Return the lowest L1 block and the lowest times of heads, with those of verification [LB7, LB10]."""
        if (node := self.verified) is None:
            return responses.slowest(statuses.values(), None)
        current = None if node.verdicts is None else node.verdicts.current_l1
        return responses.slowest(statuses.values(), current or BlockId(0, ZERO_HASH))


class SupernodeStatus:
    """The statuses of all chains, with the interface of a StatusSource that the RPC server uses."""

    def __init__(self, chains: Mapping[str, StatusSource]) -> None:
        self._chains = chains

    def readiness(self, lag: float | None) -> Readiness:
        """Return why any chain is not ready; what all chains have in common stands once [RPC92, RPC93]."""
        by_chain = {chain_id: source.readiness(lag) for chain_id, source in self._chains.items()}
        return Readiness(
            _shared({chain_id: result.reasons for chain_id, result in by_chain.items()}),
            _shared({chain_id: result.warnings for chain_id, result in by_chain.items()}),
        )

    def json(self) -> bytes:
        """Return the statuses as one JSON object by chain id."""
        chains = {chain: msgspec.Raw(source.json()) for chain, source in self._chains.items()}
        return msgspec.json.encode({"chains": chains})


def _shared(lines: Mapping[str, list[str]]) -> list[str]:
    """Return the lines of all chains with the chain before each that not all of them have."""
    common = set.intersection(*map(set, lines.values())) if len(lines) > 1 else set()
    own = [
        f"chain {chain_id}: {line}" for chain_id, of_chain in lines.items() for line in of_chain if line not in common
    ]
    return [*sorted(common), *own]


def route(root: Handler, chains: Mapping[str, Handler]) -> Handler:
    """Return the handler of a supernode: `/<chain id>` and what is below it is of the chain, all else of the root."""

    async def handle(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        # The path of `OPTIONS *`, CONNECT or a URL without a path is empty, or no path.
        name, _, below = request.path[1:].partition("/")
        chain = chains.get(name)
        if chain is None:
            return await root(request, exchange)
        return await chain(request.clone(rel_url=request.rel_url.with_path(f"/{below}", keep_query=True)), exchange)

    return handle


# --- superroot_atTimestamp of one chain and of all chains [RPC41 to RPC45, LB7, SNO10] -----------------------------

PATIENCE_SECONDS = 10.0
"""How long a process of another chain, or the interop process, may give no answer."""


async def super_root(node: NodeView, timestamp: int) -> Any:
    """Answer for one chain."""
    # Derivation's L1 block is taken before the heads are asked for, never after [RPC43a].
    rollup, derivation, status = node.config.rollup, node.seen.derivation, node.sync_status()
    if timestamp < rollup.genesis.l2_time:
        raise JsonRpcError(SERVER_ERROR, f"target block number for timestamp {timestamp}: {_before_genesis(rollup)}")
    verified = await _round(node, timestamp)
    safe = _stored_output(rollup.l2_chain_id, verified)
    if safe is None:
        output = await _safe_output(node, timestamp)
        heads = msgspec.structs.replace(output.status, current_l1=None) if output.status is not None else None
        status = responses.sync_status(node.seen.l1, heads, derivation)
        if output.block is not None:
            try:
                safe = await _with_required_l1(node, output, output.block)
            except JsonRpcError as error:
                text = f"l1AtSafeHead@{to_hex(output.block.hash)}:{output.block.number}: {error.message}"
                raise JsonRpcError(error.code, text) from None
    outputs = {} if safe is None else {rollup.l2_chain_id: safe}
    return responses.superroot(timestamp, status, (rollup.l2_chain_id,), outputs, verified)


async def supernode_super_root(supernode: Supernode, timestamp: int) -> Any:
    """Answer for all chains, for those that are verified then by the interop database alone."""
    # The L1 blocks are taken before the heads are asked for, never after [RPC43a].
    before = supernode.sync_statuses()
    branch = f"build optimistic branch at {timestamp}: failed to get optimistic"
    of_chain = f"at timestamp {timestamp} for chain ID"
    verified = None if supernode.verified is None else await _round(supernode.verified, timestamp)

    async def output_of(chain_id: int, node: NodeView) -> SafeOutput | None:
        where = f"{branch} block {of_chain} {chain_id}"
        if timestamp < node.config.rollup.genesis.l2_time:
            text = f"failed to convert timestamp to block number: {_before_genesis(node.config.rollup)}"
            raise JsonRpcError(SERVER_ERROR, f"{where}: {text}")
        if (safe := _stored_output(chain_id, verified)) is not None:
            return safe
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                output = await _safe_output(node, timestamp)
                if output.block is None:
                    return None
                block = output.block
                where = (
                    f"{branch} source L1 {of_chain} {chain_id}: L1 at safe head unavailable for L2"
                    f" {to_hex(block.hash)}:{block.number}"
                )
                return await _with_required_l1(node, output, block)
        except JsonRpcError as error:
            raise JsonRpcError(error.code, f"{where}: {error.message}") from None
        except TimeoutError:
            raise JsonRpcError(SERVER_ERROR, f"{where}: its engine process does not answer") from None

    chains = supernode.chains
    answers = (output_of(chain_id, node) for chain_id, node in chains.items())
    outputs: dict[int, SafeOutput] = {}
    for chain_id, output in zip(chains, await asyncio.gather(*answers, return_exceptions=True), strict=True):
        # Of several errors that of the first chain, whichever came first.
        if isinstance(output, BaseException):
            raise output
        if output is not None:
            outputs[chain_id] = output
    return responses.superroot(timestamp, supernode.slowest(before), tuple(chains), outputs, verified)


async def _round(node: NodeView, timestamp: int) -> RoundResponse | None:
    """Return what is verified of a time in seconds, None where nothing has to be [LB7]."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            verified = await node.round_at(timestamp)
    except TimeoutError:
        raise JsonRpcError(SERVER_ERROR, "the interop process does not answer") from None
    if verified is not None and verified.error is not None:
        raise JsonRpcError(SERVER_ERROR, verified.error)
    return verified


def _stored_output(chain_id: int, verified: RoundResponse | None) -> SafeOutput | None:
    """Return the output of a chain's head in a round, None where that is not stored."""
    if verified is None or chain_id not in verified.outputs:
        return None
    head, output = verified.heads[chain_id], verified.outputs[chain_id]
    roots = output.state_root, output.storage_root
    return SafeOutput(head, *roots, output_root(*roots, head.hash), output.l1)


def _before_genesis(rollup: RollupConfig) -> str:
    return f"did not reach genesis time ({rollup.genesis.l2_time}) yet"


async def _safe_output(node: NodeView, timestamp: int) -> control.OutputResponse:
    """Return the output of the last block at or before a time in seconds, without a block if it is not local safe."""
    number = node.config.rollup.block_number_at(timestamp)
    output = await node.control.request(control.OutputRequest, number, True)
    if not isinstance(output, control.OutputResponse) or output.status is None:
        raise JsonRpcError(SERVER_ERROR, output.error or "the engine process gave no output")
    return output


async def _with_required_l1(node: NodeView, output: control.OutputResponse, block: L2BlockRef) -> SafeOutput:
    """Return an output with the first L1 block with which its block was safe. Raises JsonRpcError without it."""
    required = await _required_l1(node, block)
    return SafeOutput(block.id, output.state_root, output.withdrawal_storage_root, output.output_root, required)


async def _required_l1(node: NodeView, block: L2BlockRef) -> BlockId:
    if block.id == node.config.rollup.genesis.l2:
        return BlockId(0, ZERO_HASH)
    if not node.config.safedb:
        raise JsonRpcError(SERVER_ERROR, "safe head database not enabled")
    response = await answer(node.control, control.SafeHeadResponse, control.L1AtSafeHeadRequest, block.number)
    return response.l1_block
