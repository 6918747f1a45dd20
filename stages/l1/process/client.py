"""L1 execution endpoints: one in use, the next when it fails; what belongs to one block comes from one of them."""

import time
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import orjson

from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.methods import ONE_BY_ONE, ReceiptsMethods, is_not_found, is_unusable
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, to_hex, to_quantity
from rollup_node.stages.protocol.types import Address, Hash

T = TypeVar("T")

LONGEST_REST = 60.0
ROUNDS = 3
_BLOCK_BY_NUMBER = "eth_getBlockByNumber"


class L1Endpoint:
    """One execution endpoint. Every method raises EndpointError or RpcFailure when it cannot answer."""

    def __init__(self, url: str, config: L1Config, meter: Meter) -> None:
        self._rpc = JsonRpcClient(
            url,
            timeout=config.timeout,
            max_concurrency=config.max_concurrency,
            max_batch=config.max_batch,
            rate_limit=config.rate_limit,
        )
        self.name = self._rpc.name
        self.rests_until = 0.0
        self._chain_id = config.rollup.l1_chain_id
        self._methods = ReceiptsMethods(config.rpc_kind)
        self._meter = meter
        self._is_checked = False

    async def block_json(self, label: str) -> Any:
        """The block of a label (`latest`, `safe`, `finalized`) without transactions; None if there is none."""
        await self._check_chain()
        try:
            return await self._timed(_BLOCK_BY_NUMBER, self._rpc.call(_BLOCK_BY_NUMBER, label, False))
        except RpcFailure as failure:
            if is_not_found(failure.message):
                return None
            raise

    async def block_body(self, number: int) -> bytes | None:
        """The whole answer with the full block of a number; None if there is none."""
        await self._check_chain()
        call = self._rpc.call_raw(_BLOCK_BY_NUMBER, to_quantity(number), True)
        try:
            body = await self._timed(_BLOCK_BY_NUMBER, call)
        except RpcFailure as failure:
            if is_not_found(failure.message):
                return None
            raise
        return None if _is_null(body) else body

    async def headers_json(self, numbers: Sequence[int]) -> list[Any]:
        """The blocks of these numbers without transactions; None in the place of one that is not there."""
        await self._check_chain()
        calls = [(_BLOCK_BY_NUMBER, (to_quantity(number), False)) for number in numbers]
        answers = await self._timed(_BLOCK_BY_NUMBER, self._rpc.batch(calls))
        for place, answer in enumerate(answers):
            if isinstance(answer, RpcFailure):
                if not is_not_found(answer.message):
                    raise answer
                answers[place] = None
        return answers

    async def receipts_body(self, block_hash: Hash, transactions: Sequence[Hash]) -> bytes | None:
        """The answer to the best receipts method for a block, or one made of the answers for each transaction; None
        if the endpoint does not have them (yet)."""
        while True:
            method = self._methods.choose(len(transactions), time.monotonic())
            if method == ONE_BY_ONE:
                return await self._receipts_one_by_one(transactions)
            call = self._rpc.call_raw(method, self._methods.parameter(method, to_hex(block_hash)))
            try:
                body = await self._timed(method, call)
            except RpcFailure as failure:
                if is_not_found(failure.message):
                    return None
                if not is_unusable(failure.code, failure.message):
                    raise
                self._methods.drop(method, time.monotonic())
                continue
            return None if _is_null(body) else body

    async def storage(self, address: Address, slot: Hash, block_hash: Hash) -> Any:
        """The answer to eth_getStorageAt."""
        return await self._state("eth_getStorageAt", to_hex(address), to_hex(slot), to_hex(block_hash))

    async def proof(self, address: Address, slot: Hash, block_hash: Hash) -> Any:
        """The answer to eth_getProof of one slot."""
        return await self._state("eth_getProof", to_hex(address), [to_hex(slot)], to_hex(block_hash))

    async def _state(self, method: str, *parameters: object) -> Any:
        await self._check_chain()
        return await self._timed(method, self._rpc.call(method, *parameters))

    def failed(self, error: Exception) -> None:
        """Notes that the endpoint failed: it may come back as another chain's, and may have asked for a rest."""
        self._is_checked = False
        if isinstance(error, EndpointError) and error.retry_after:
            self.rests_until = time.monotonic() + min(error.retry_after, LONGEST_REST)

    def recheck(self) -> None:
        """Asks for the chain id again before the next call."""
        self._is_checked = False

    async def close(self) -> None:
        """Closes the connections."""
        await self._rpc.close()

    async def _receipts_one_by_one(self, transactions: Sequence[Hash]) -> bytes | None:
        """Asks again for those that were not there, keeping the others."""
        found: dict[Hash, Any] = {}
        for _ in range(ROUNDS):
            missing = [each for each in transactions if each not in found]
            if not missing:
                break
            calls = [(ONE_BY_ONE, [to_hex(each)]) for each in missing]
            answers = await self._timed(ONE_BY_ONE, self._rpc.batch(calls))
            failure = next((answer for answer in answers if isinstance(answer, RpcFailure)), None)
            if failure is not None:
                raise failure
            found |= {each: answer for each, answer in zip(missing, answers, strict=True) if answer is not None}
        if len(found) < len(transactions):
            return None
        return orjson.dumps({"result": [found[each] for each in transactions]})

    async def _check_chain(self) -> None:
        """Whether the endpoint is on the right chain; asked once, and again after it failed."""
        if self._is_checked:
            return
        answer = await self._timed("eth_chainId", self._rpc.call("eth_chainId"))
        try:
            chain_id = from_quantity(answer, 256)
        except HexError:
            raise EndpointError(self.name, "the answer to eth_chainId is not a number") from None
        if chain_id != self._chain_id:
            raise EndpointError(self.name, f"is on L1 chain {chain_id}, but the rollup is on {self._chain_id}")
        self._is_checked = True

    async def _timed(self, method: str, call: Awaitable[T]) -> T:
        """Awaits a call and counts it."""
        self._meter.count("rpc_client_requests_total", rpc="l1", method=method)
        begun, error = time.monotonic(), ""
        try:
            return await call
        except RpcFailure as failure:
            error = f"rpc_{failure.code}"
            raise
        except EndpointError as failure:
            error = f"http_{failure.status}" if failure.status else "endpoint"
            raise
        finally:
            taken = time.monotonic() - begun
            self._meter.observe("rpc_client_request_duration_seconds", taken, rpc="l1", method=method)
            self._meter.count("rpc_client_responses_total", rpc="l1", method=method, error=error)


class L1Endpoints:
    """The endpoints in the order given; the one in use stays in use until it fails."""

    def __init__(self, config: L1Config, meter: Meter) -> None:
        self.all = tuple(L1Endpoint(url, config, meter) for url in config.endpoints)
        self._current = 0

    def pick(self) -> L1Endpoint:
        """The endpoint in use, or the next that was not asked to be left alone."""
        now = time.monotonic()
        for step in range(len(self.all)):
            endpoint = self.all[(self._current + step) % len(self.all)]
            if endpoint.rests_until <= now:
                self._current = (self._current + step) % len(self.all)
                return endpoint
        resting = self.all[self._current]
        raise EndpointError(resting.name, f"asked to be left alone for {resting.rests_until - now:.0f} s more")

    def failed(self, endpoint: L1Endpoint, error: Exception) -> None:
        """Goes on to the next endpoint, if this one is still in use."""
        endpoint.failed(error)
        if self.all[self._current] is endpoint:
            self.move_on()

    def move_on(self) -> None:
        """Uses the next endpoint from now on."""
        self._current = (self._current + 1) % len(self.all)

    def recheck(self) -> None:
        """Has the chain id of every endpoint checked again before its next call."""
        for endpoint in self.all:
            endpoint.recheck()

    async def close(self) -> None:
        """Closes all connections."""
        for endpoint in self.all:
            await endpoint.close()


def _is_null(body: bytes) -> bool:
    """Whether a short answer has no result; an error in it was raised before."""
    return len(body) <= 256 and orjson.loads(body).get("result") is None
