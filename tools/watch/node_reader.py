"""Asks our own side: a node for output roots, or a supernode for super roots, without a call to L1 [WAT5, WAT6]."""

from typing import Annotated

import msgspec
from yarl import URL

from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.errors import DECODE_ERRORS, METHOD_NOT_FOUND
from rollup_node.stages.protocol.hex_encoding import hash_from_hex, to_hex
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.rpc.status.node_status import NodeStatus
from rollup_node.tools.watch.games import SUPER_TYPES, Game, Opinion

MAX_STATUS = 1 << 20
SECONDS = 10.0
FINAL_BLOCKS = 96
"""L1 blocks after which a supernode's L1 is taken as final: it does not say which is."""
NOT_FOUND, BEFORE_GENESIS = "not found", "did not reach genesis time"
"""Parts of errors of op-node's API that say that nothing is there."""
_Number = Annotated[int, msgspec.Meta(ge=0)]


class _Block(msgspec.Struct):
    number: _Number
    hash: str = ""


class _SyncStatus(msgspec.Struct):
    current_l1: _Block
    finalized_l1: _Block
    safe_l2: _Block


class _Output(msgspec.Struct, rename="camel"):
    output_root: str


class _SafeHead(msgspec.Struct, rename="camel"):
    safe_head: _Block


class _Super(msgspec.Struct):
    verified_required_l1: _Block
    super_root: str


class _SuperRoot(msgspec.Struct):
    current_l1: _Block
    data: _Super | None = None


class _SupernodeStatus(msgspec.Struct):
    current_l1: _Block


class _RollupConfig(msgspec.Struct):
    l1_chain_id: int


class View(msgspec.Struct, frozen=True):
    """How far our side is: the L1 block that it reads, L1's finalized block, and the last L2 block that is safe.

    `proven_l1` is the number and the hash of an L1 block that the node has proven from its checkpoint; None without."""

    current_l1: int
    finalized_l1: int
    safe: int | None = None
    proven_l1: tuple[int, Hash] | None = None


class OwnSide:
    """The RPC of a node or, with `is_supernode`, of a supernode. Methods raise EndpointError or RpcFailure."""

    def __init__(self, url: str, is_supernode: bool = False) -> None:
        self._client = JsonRpcClient(url)
        self.name, self.is_supernode = self._client.name, is_supernode
        self._status_url = url.rstrip("/") + "/status.json"
        self._http = HttpClient(self._status_url, self.name)

    async def l1_chain_id(self) -> int | None:
        """Return the id of the L1 chain; None of a supernode, which does not tell it at this path."""
        if self.is_supernode:
            return None
        config = await self._client.call_typed(_RollupConfig, "optimism_rollupConfig")
        chain_id: int = config.l1_chain_id
        return chain_id

    async def view(self) -> View:
        """Return how far it is."""
        if self.is_supernode:
            current = (await self._client.call_typed(_SupernodeStatus, "supernode_syncStatus")).current_l1.number
            return View(current, max(0, current - FINAL_BLOCKS))
        status = await self._client.call_typed(_SyncStatus, "optimism_syncStatus")
        return View(
            status.current_l1.number, status.finalized_l1.number, status.safe_l2.number, await self._proven_l1()
        )

    async def _proven_l1(self) -> tuple[int, Hash] | None:
        """Return the head of L1 that the node has proven. None of a node of others, which has no such page."""
        try:
            status, _, body = await self._http.get(URL(self._status_url), {}, SECONDS, MAX_STATUS)
            l1 = msgspec.json.decode(body, type=NodeStatus).l1 if is_success(status) else None
        except (EndpointError, *DECODE_ERRORS):
            return None
        if l1 is None or l1.proof is None or not l1.proof.linked or l1.head is None:
            return None
        return l1.head.number, hash_from_hex(l1.head.hash)

    def compares(self, game: Game) -> bool:
        """Whether it has roots of the game's type: a supernode has no output roots of one chain here."""
        return not self.is_supernode or game.game_type in SUPER_TYPES

    async def opinion(self, game: Game, view: View) -> Opinion:
        """Return what it says of a game that it compares."""
        if game.game_type in SUPER_TYPES:
            try:
                answer = await self._super_root(game.l2_sequence_number)
            except RpcFailure as failure:
                if BEFORE_GENESIS not in failure.message:
                    raise
                return Opinion(view.current_l1, None)
            if answer.data is None:
                return Opinion(answer.current_l1.number, None)
            is_safe = answer.data.verified_required_l1.number <= game.l1_head_num
            return Opinion(answer.current_l1.number, hash_from_hex(answer.data.super_root), is_safe)
        root = await self.root(game.l2_sequence_number, view)
        is_equal = root is not None and to_hex(root) == game.root_claim
        return Opinion(view.current_l1, root, await self._was_safe(game) if is_equal else None)

    async def root(self, sequence_number: int, view: View) -> Hash | None:
        """Return the output root of a block or a supernode's super root of a time; None where it has none yet."""
        if self.is_supernode:
            answer = await self._super_root(sequence_number)
            return None if answer.data is None else hash_from_hex(answer.data.super_root)
        if view.safe is None or sequence_number > view.safe:
            return None
        try:
            output = await self._client.call_typed(_Output, "optimism_outputAtBlock", hex(sequence_number))
        except RpcFailure as failure:
            # As op-dispute-mon: no claim about a block that does not exist is right.
            if NOT_FOUND not in failure.message.lower():
                raise
            return None
        return hash_from_hex(output.output_root)

    async def _was_safe(self, game: Game) -> bool | None:
        """Return None where the node has no safe head database, or none that reaches back so far."""
        try:
            answer = await self._client.call_typed(_SafeHead, "optimism_safeHeadAtL1Block", hex(game.l1_head_num))
        except RpcFailure:
            return None
        result: bool = answer.safe_head.number >= game.l2_sequence_number
        return result

    async def _super_root(self, timestamp: int) -> _SuperRoot:
        answer: _SuperRoot = await self._client.call_typed(_SuperRoot, "superroot_atTimestamp", hex(timestamp))
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
        await self._http.close()


async def own_side(url: str) -> OwnSide:
    """Return the node or supernode at a URL. Raises EndpointError or RpcFailure for neither."""
    node = OwnSide(url)
    try:
        await node.l1_chain_id()
        return node
    except RpcFailure as failure:
        await node.close()
        if failure.code != METHOD_NOT_FOUND:
            raise
    except EndpointError:
        await node.close()
        raise
    supernode = OwnSide(url, is_supernode=True)
    try:
        await supernode.view()
    except (EndpointError, RpcFailure):
        await supernode.close()
        raise
    return supernode
