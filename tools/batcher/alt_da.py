"""Alt-DA for the batcher: writes inputs to a DA server, posts their commitments, and challenges on L1 those whose input
the server has lost [ADA1, ADA5 to ADA7].

The challenge contract of the local network emits a log from its calldata; see `tools.devnet.files`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient
from rollup_node.stages.protocol.challenges import CHALLENGE_TOPIC, ChallengeStatus
from rollup_node.stages.protocol.commitments import VERSION, Commitment, keccak_commitment
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
    challenge: Hash | None = None
    included: int = 0


class AltDaBatcher:
    """State: the inputs that were posted and not checked yet, or are challenged. With `resolves` a challenge that is on
    L1 is resolved with the data."""

    def __init__(self, url: str, l1: JsonRpcClient, send: Send, resolves: bool) -> None:
        self._url, self._l1, self._send, self._resolves = url, l1, send, resolves
        self._session: aiohttp.ClientSession | None = None
        self._put: dict[bytes, tuple[Commitment, bytes]] = {}
        self.posted: list[PostedInput] = []
        self.challenges = 0

    async def store(self, data: bytes) -> bytes:
        """Writes an input; the data item with its commitment. Raises EndpointError."""
        commitment = keccak_commitment(data)
        status = await self._request("POST", f"put/{to_hex(commitment.encode())}", data)
        if status != 200:
            raise EndpointError("DA server", f"HTTP status {status}", status)
        item = bytes((VERSION,)) + commitment.encode()
        self._put[item] = commitment, data
        return item

    def sent(self, item: bytes, transaction: Hash) -> None:
        """A transaction with this item was sent to L1."""
        self.posted.append(PostedInput(*self._put.pop(item), transaction))

    async def step(self) -> None:
        """Challenges and resolves what is due. Raises EndpointError or RpcFailure."""
        for each in list(self.posted):
            if await self._is_done(each):
                self.posted.remove(each)

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()

    async def _is_done(self, posted: PostedInput) -> bool:
        if posted.challenge is None:
            receipt = await self._l1.call("eth_getTransactionReceipt", to_hex(posted.transaction))
            if receipt is None:
                return False
            posted.included = int(receipt["blockNumber"], 16)
            if await self._request("GET", f"get/{to_hex(posted.commitment.encode())}") == 200:
                return True
            posted.challenge = await self._send(challenge_call(posted.commitment, posted.included))
            self.challenges += 1
            return not self._resolves
        if await self._l1.call("eth_getTransactionReceipt", to_hex(posted.challenge)) is None:
            return False
        await self._send(resolve_call(posted.commitment, posted.included, posted.data))
        return True

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
