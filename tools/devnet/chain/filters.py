"""Filters of eth_*: what has happened to the canonical chain since a filter was last read."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.blocks import Block, BlockChain, CanonicalChange
from rollup_node.tools.devnet.serving.jsonrpc_server import Method

MAX_FILTERS = 256
"""The filter that was read the longest time ago is dropped for a newer one."""
MAX_CHANGES = 10_000

Logs = Callable[[dict[str, Any]], list[dict[str, Any]]]


class Filter(NamedTuple):
    """A filter for blocks, or for logs that match `query`; `seen` is the head when it was last read."""

    seen: Block
    query: dict[str, Any] | None


class EthFilters:
    """The filter methods over a chain; `logs` is eth_getLogs.

    A filter for logs ignores the range of its query, except in eth_getFilterLogs."""

    def __init__(self, chain: BlockChain, logs: Logs) -> None:
        self._chain, self._logs = chain, logs
        self._filters: OrderedDict[str, Filter] = OrderedDict()

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        return {
            "eth_newBlockFilter": lambda: self._add(None),
            "eth_newFilter": self.new_filter,
            "eth_getFilterChanges": self.changes,
            "eth_getFilterLogs": self.filter_logs,
            "eth_uninstallFilter": lambda name: self._filters.pop(str(name), None) is not None,
        }

    def new_filter(self, query: Any) -> str:
        """eth_newFilter. Raises JsonRpcError and HexError for a malformed query."""
        self._logs_of(self._chain.head, query)
        return self._add(query)

    def changes(self, name: Any) -> list[Any]:
        """eth_getFilterChanges: hashes of new blocks, or logs, those of blocks that left the chain first and marked.

        Raises JsonRpcError for an unknown filter, and for more than MAX_CHANGES blocks."""
        found = self._get(name)
        change = change_since(self._chain, found.seen)
        self._filters[str(name)] = found._replace(seen=self._chain.head)
        if found.query is None:
            return [to_hex(block.hash) for block in change.added]
        removed = [log | {"removed": True} for block in change.removed for log in self._logs_of(block, found.query)]
        return removed + [log for block in change.added for log in self._logs_of(block, found.query)]

    def filter_logs(self, name: Any) -> list[dict[str, Any]]:
        """eth_getFilterLogs. Raises JsonRpcError for an unknown filter, and one for blocks."""
        query = self._get(name).query
        if query is None:
            raise JsonRpcError(SERVER_ERROR, "filter not found")
        return self._logs(query)

    def _logs_of(self, block: Block, query: Any) -> list[dict[str, Any]]:
        if isinstance(query, dict):
            query = {name: query[name] for name in ("address", "topics") if name in query}
            query["blockHash"] = to_hex(block.hash)
        return self._logs(query)

    def _add(self, query: dict[str, Any] | None) -> str:
        name = hex(secrets.randbits(128))
        self._filters[name] = Filter(self._chain.head, query)
        if len(self._filters) > MAX_FILTERS:
            self._filters.popitem(last=False)
        return name

    def _get(self, name: Any) -> Filter:
        found = self._filters.get(str(name))
        if found is None:
            raise JsonRpcError(SERVER_ERROR, "filter not found")
        self._filters.move_to_end(str(name))
        return found


def change_since(chain: BlockChain, seen: Block) -> CanonicalChange:
    """Return what left the canonical chain and joined it since a block was its head, lowest first.

    Raises JsonRpcError for more than MAX_CHANGES blocks."""
    removed = []
    while not chain.is_canonical(seen):
        removed.append(seen)
        seen = chain.parent(seen)
    numbers = range(seen.number + 1, chain.head.number + 1)
    if len(removed) + len(numbers) > MAX_CHANGES:
        raise JsonRpcError(SERVER_ERROR, f"more than {MAX_CHANGES} blocks since the filter was last read")
    return CanonicalChange(tuple(removed[::-1]), tuple(b for n in numbers if (b := chain.at(n)) is not None))
