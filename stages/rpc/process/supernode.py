"""The root path of a supernode: all of its chains at once [SNO7]."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from rollup_node.stages.protocol.types import ZERO_HASH, BlockId
from rollup_node.stages.rpc import responses
from rollup_node.stages.rpc.process.listener import Exchange, Handler
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.process.status_source import StatusSource
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
