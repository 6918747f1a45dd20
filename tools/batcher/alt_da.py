"""Alt-DA for the batcher: writes inputs to a DA server and posts their commitments [ADA1, ADA5 to ADA7].

It challenges on L1 those whose input the server has lost.

The challenge contract of the local network emits a log from its calldata; see `tools.devnet.files`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.commitments import (
    CHALLENGE_TOPIC,
    VERSION,
    ChallengeStatus,
    Commitment,
    keccak_commitment,
)
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash

TIMEOUT_SECONDS = 10.0
_SELECTOR = 4

Send = Callable[[bytes], Awaitable[Hash]]
"""Sends a transaction with this calldata to the challenge contract."""


@dataclass
class PostedInput:
    """An input whose commitment is on its way to L1 or there, and the challenge of it."""

    commitment: Commitment
    data: bytes
    transaction: Hash
    included: int = 0
    challenge: Hash | None = None
    is_resolved: bool = False


class AltDaBatcher:
    """State: the inputs that were posted and not checked yet, or are challenged, for as long as they can be.

    They can be for `window` L1 blocks. With `resolves` a challenge that is on L1 is resolved with the data."""

    def __init__(self, url: str, l1: JsonRpcClient, send: Send, window: int, resolves: bool) -> None:
        self._url, self._l1, self._send, self._window, self._resolves = url, l1, send, window, resolves
        self._session: aiohttp.ClientSession | None = None
        self._put: dict[bytes, tuple[Commitment, bytes]] = {}
        self.posted: list[PostedInput] = []
        self.challenges = 0

    async def store(self, data: bytes) -> bytes:
        """Write an input; the data item with its commitment. Raises EndpointError."""
        commitment = keccak_commitment(data)
        status = await self._request("POST", f"put/{to_hex(commitment.encode())}", data)
        if status != 200:
            raise EndpointError("DA server", f"HTTP status {status}", status)
        item = bytes((VERSION,)) + commitment.encode()
        self._put[item] = commitment, data
        return item

    def sent(self, item: bytes, transaction: Hash) -> None:
        """Note that a transaction with this item was sent to L1."""
        self.posted.append(PostedInput(*self._put.pop(item), transaction))

    async def step(self) -> None:
        """Challenges and resolves what is due. Raises EndpointError or RpcFailure."""
        head = int(await self._l1.call("eth_blockNumber"), 16) if self.posted else 0
        for item in list(self.posted):
            if await self._is_done(item, head):
                self.posted.remove(item)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _is_done(self, posted: PostedInput, head: int) -> bool:
        included = await self._block_of(posted.transaction)
        if included is None:
            return False
        # A reorg may have moved the commitment; a challenge names its block.
        if included != posted.included:
            posted.included, posted.challenge, posted.is_resolved = included, None, False
        if posted.challenge is None:
            if await self._request("GET", f"get/{to_hex(posted.commitment.encode())}") == 200:
                return True
            posted.challenge = await self._send(challenge_call(posted.commitment, included))
            self.challenges += 1
        elif self._resolves and not posted.is_resolved and await self._block_of(posted.challenge) is not None:
            await self._send(resolve_call(posted.commitment, included, posted.data))
            posted.is_resolved = True
        return head > included + self._window

    async def _block_of(self, transaction: Hash) -> int | None:
        """Return the number of a transaction's L1 block; None while it is in none."""
        receipt = await self._l1.call("eth_getTransactionReceipt", to_hex(transaction))
        return None if receipt is None else int(receipt["blockNumber"], 16)

    async def _request(self, method: str, path: str, body: bytes | None = None) -> int:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.request(method, f"{self._url}/{path}", data=body) as response:
                return response.status
        except (TimeoutError, aiohttp.ClientError) as error:
            raise EndpointError("DA server", f"the request failed ({type(error).__name__})") from None


def challenge_call(commitment: Commitment, included: int) -> bytes:
    """Calldata that challenges a commitment of L1 block `included`."""
    return _SELECTOR.to_bytes(_SELECTOR, "big") + _event(commitment, included, ChallengeStatus.ACTIVE)


def resolve_call(commitment: Commitment, included: int, data: bytes) -> bytes:
    """Calldata that resolves a challenge: the arguments of `resolve(uint256,bytes,bytes)`, then the log."""
    first = _bytes(commitment.encode())
    arguments = b"".join((_word(included), _word(96), _word(96 + len(first)), first, _bytes(data)))
    event = _event(commitment, included, ChallengeStatus.RESOLVED)
    return (_SELECTOR + len(arguments)).to_bytes(_SELECTOR, "big") + arguments + event


def _event(commitment: Commitment, included: int, status: ChallengeStatus) -> bytes:
    """Two topics, then the data of the log."""
    return b"".join((CHALLENGE_TOPIC, _word(included), _word(64), _word(status), _bytes(commitment.encode())))


def _bytes(value: bytes) -> bytes:
    return _word(len(value)) + value + bytes(-len(value) % 32)


def _word(value: int) -> bytes:
    return value.to_bytes(32, "big")
