"""The known L2 blocks that `replay` compares with: from an engine's eth namespace, or from a file."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import orjson

from rollup_node.node.checks.engine import engine_client
from rollup_node.stages.engine.calls.io.answers import Block, payload_of_block
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.block_refs import BlockError, payload_from_block_json, payload_of_header
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.headers import HeaderError, decode_header, header_hash
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.tools.inspect.l2_prefetch import METHOD, L2Prefetch

TIMEOUT = 10.0


class SourceError(ValueError):
    """The file of L2 blocks is unreadable or malformed."""


class BlockSource(Protocol):
    """L2 blocks by number."""

    async def payload(self, number: int) -> ExecutionPayload | None:
        """Returns the block, or None if the source has none of this number. Raises TemporaryError if the source is
        unreachable or its block malformed."""

    async def close(self) -> None:
        """Closes connections."""


class EngineSource:
    """Blocks of an execution engine by JSON-RPC, with tokens of `jwt_secret` if there is one. When one block is asked
    for after the other, the next ones are prefetched."""

    def __init__(self, url: str, jwt_secret: bytes | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = JsonRpcClient(url) if jwt_secret is None else engine_client(url, jwt_secret, TIMEOUT)
        self._prefetch = L2Prefetch(self._client, clock)

    async def payload(self, number: int) -> ExecutionPayload | None:
        try:
            block = await self._prefetch.take(number)
            if block is None:
                block = await self._client.call_typed(Block | None, METHOD, hex(number), True)
            if block is None:
                return None
            self._prefetch.follow(number)
            return payload_of_block(block)
        except (EndpointError, RpcFailure, BlockError) as error:
            raise TemporaryError(f"L2 block {number}: {error}") from None

    async def close(self) -> None:
        await self._prefetch.stop()
        await self._client.close()


class FileSource:
    """Blocks of a JSON file: a list of eth_getBlock objects with full transactions, or of objects with `header_rlp` and
    `txs` in hex."""

    def __init__(self, blocks: dict[int, ExecutionPayload]) -> None:
        self._blocks = blocks

    @classmethod
    def read(cls, path: Path) -> "FileSource":
        """Reads a file. Raises SourceError if it is unreadable or malformed."""
        try:
            entries = orjson.loads(path.read_bytes())
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror}") from None
        except orjson.JSONDecodeError as error:
            raise SourceError(f"{path} is not JSON: {error}") from None
        if not isinstance(entries, list) or not entries:
            raise SourceError(f"{path}: expected a list of blocks")
        payloads = [_from_entry(path, index, entry) for index, entry in enumerate(entries)]
        return cls({payload.block_number: payload for payload in payloads})

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the blocks, sorted."""
        return sorted(self._blocks)

    async def payload(self, number: int) -> ExecutionPayload | None:
        return self._blocks.get(number)

    async def close(self) -> None:
        """Nothing is open."""


def _from_entry(path: Path, index: int, entry: Any) -> ExecutionPayload:
    try:
        if isinstance(entry, dict) and "header_rlp" in entry:
            header = decode_header(_hex(entry["header_rlp"]))
            transactions = tuple(_hex(raw) for raw in entry["txs"])
            return payload_of_header(header, header_hash(header), transactions)
        return payload_from_block_json(entry)
    except (HexError, HeaderError, BlockError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: block {index} of the list: {error}") from None


def _hex(text: str) -> bytes:
    return from_hex(text if text.startswith("0x") else "0x" + text)
