"""L1 execution endpoints: one is in use until it fails; all data of a block come from one of them."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
import orjson

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure, is_throttled, tls_code
from rollup_node.stages.io.http.endpoint_record import EndpointMeter, EndpointRecord, RpcMeter
from rollup_node.stages.io.http.json_answers import Call
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.endpoint_pool import EndpointFault, EndpointPool, View
from rollup_node.stages.l1.receipts import ONE_BY_ONE, ReceiptsMethods, is_not_found, is_unsupported
from rollup_node.stages.l1.verify import InvalidDataError, parse_result, verify_block_ref
from rollup_node.stages.messages.base import EndpointCounts
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.headers import HeaderJson
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, to_hex
from rollup_node.stages.protocol.mpt import AccountProof
from rollup_node.stages.protocol.types import Address, Hash

T = TypeVar("T")
log = Logger("l1")

RECEIPT_ROUNDS = 3
NULL_RESPONSE_SIZE = 256
RPC = "l1"
_BLOCK_BY_NUMBER = "eth_getBlockByNumber"
_BLOCK_BY_HASH = "eth_getBlockByHash"
_NULL = msgspec.Raw(b"null")


class OtherChainError(EndpointError):
    """The endpoint is of another chain than the rollup's L1."""


class BehindError(InvalidDataError):
    """The endpoint does not have yet what belongs to a block that it has."""


def code_of(error: Exception) -> Code:
    """Return the code for the error of a call, of the data that it returned, or of an endpoint that is not called."""
    if isinstance(error, OtherChainError):
        return Code.L1_CHAIN
    if is_throttled(error):
        return Code.L1_THROTTLED
    if not isinstance(error, EndpointError):
        return Code.L1_BLOCK
    return tls_code(str(error)) or Code.L1_UNREACHABLE


def fault_of(error: Exception) -> EndpointFault:
    """Return the fault of the endpoint that the error of a call, or of the data that it returned, shows."""
    if isinstance(error, OtherChainError):
        return EndpointFault.OTHER_CHAIN
    if is_throttled(error):
        return EndpointFault.THROTTLED
    if isinstance(error, InvalidDataError):
        return EndpointFault.BEHIND if isinstance(error, BehindError) else EndpointFault.WRONG_DATA
    return EndpointFault.FAILING if isinstance(error, RpcFailure) else EndpointFault.UNREACHABLE


def _says_no(error: Exception) -> bool:
    """Return whether an endpoint answers that it has no such block or method."""
    return isinstance(error, RpcFailure) and (is_not_found(error.message) or is_unsupported(error.code, error.message))


class L1Endpoint:
    """One execution endpoint.

    Every method raises EndpointError or RpcFailure when the endpoint does not answer it. `on_new_head` is called
    when it says that there is a new head, or is lost [LHD3]."""

    def __init__(self, url: str, config: L1Config, meter: Meter, on_new_head: Callable[[], None]) -> None:
        self._meter = RpcMeter(meter, RPC)
        self._rpc = JsonRpcClient(
            url,
            timeout=config.timeout,
            max_concurrency=config.max_concurrency,
            max_batch=config.max_batch,
            rate_limit=config.rate_limit,
            on_notification=self._on_notification,
            on_exchange=self._meter.exchanged,
        )
        self.notifications = 0
        self._timeout = config.timeout
        self._on_new_head = on_new_head
        self._refuses_subscriptions = False
        self.name = self._rpc.name
        self.record = EndpointRecord(RPC, self.name, meter=meter)
        self._chain_id = config.rollups[0].l1_chain_id
        self._methods = ReceiptsMethods(config.rpc_kind)
        self._chain_checked = False

    @property
    def takes_batches(self) -> bool:
        """Whether it is sent several calls as one request [LHD30]."""
        return self._rpc.takes_batches

    async def subscribe_heads(self) -> bool:
        """Whether the endpoint calls `on_new_head` for new heads. It is asked to if its URL is one of a WebSocket."""
        if not self._rpc.can_subscribe or self._refuses_subscriptions:
            return False
        if self._rpc.is_subscribed:
            return True
        await self._check_chain()
        try:
            await self._timed("eth_subscribe", self._rpc.subscribe("newHeads"))
        except RpcFailure as failure:
            self._refuses_subscriptions = True
            text = "the L1 endpoint refuses a subscription: its head is polled"
            log.warn(text, code=Code.L1_SUBSCRIPTION.text, endpoint=self.name, error=failure)
            return False
        return True

    async def reconnect(self) -> None:
        """Has the next call made over another connection, if its URL is one of a WebSocket."""
        await self._rpc.reconnect()

    async def block_json(self, label: str) -> Any:
        """Return the header of a label's block (`latest`, `safe`, `finalized`, or a number); None if there is none."""
        return await self._header(_BLOCK_BY_NUMBER, label)

    async def header_by_hash(self, block_hash: Hash) -> Any:
        """Return the header of the block of a hash; None if the endpoint does not have it."""
        return await self._header(_BLOCK_BY_HASH, to_hex(block_hash))

    async def _header(self, method: str, block: str) -> Any:
        await self._check_chain()
        call = self._rpc.call_typed(HeaderJson | None, method, block, False)
        return _header_members(await self._found(method, call))

    async def block_body(self, label: str, limit: AnswerLimit) -> bytes | None:
        """Return the raw response with a full block by label or number, or None. Raises also AnswerTooLargeError."""
        await self._check_chain()
        call = self._rpc.call_raw(_BLOCK_BY_NUMBER, label, True, limit=limit)
        return _unless_null(await self._found(_BLOCK_BY_NUMBER, call))

    async def block_bodies(self, numbers: Sequence[int], limit: AnswerLimit) -> list[bytes | RpcFailure | None]:
        """Return what `block_body` returns or raises for several numbers, by one batch with an answer within `limit`.

        Raises also AnswerTooLargeError."""
        await self._check_chain()
        calls = [(_BLOCK_BY_NUMBER, (hex(number), True)) for number in numbers]
        batch = self._rpc.batch(calls, msgspec.Raw, limit, self._timeout)
        return [self._of_batch(result) for result in await self._timed(_BLOCK_BY_NUMBER, batch, len(calls))]

    def _of_batch(self, result: msgspec.Raw | RpcFailure) -> bytes | RpcFailure | None:
        """Return a result in a batch as the body of the response to its call."""
        if not isinstance(result, RpcFailure):
            return None if result == _NULL else b'{"result":' + result + b"}"
        if is_not_found(result.message):
            return None
        self.record.failed(result, 0)
        return result

    async def headers_json(self, numbers: Sequence[int]) -> list[Any]:
        """Return the headers of the blocks of these numbers; None in the place of one that does not exist."""
        await self._check_chain()
        return await self._headers([(_BLOCK_BY_NUMBER, (hex(number), False)) for number in numbers])

    async def _headers(self, calls: Sequence[Call]) -> list[Any]:
        blocks = await self._timed(_BLOCK_BY_NUMBER, self._rpc.batch(calls, HeaderJson | None), len(calls))
        for index, block in enumerate(blocks):
            if isinstance(block, RpcFailure):
                if not is_not_found(block.message):
                    self.record.failed(block, 0)
                    raise block
                blocks[index] = None
            else:
                blocks[index] = _header_members(block)
        return blocks

    async def receipts_body(self, block_hash: Hash, transactions: Sequence[Hash], limit: AnswerLimit) -> bytes | None:
        """Return the response to the best receipts method for a block, or one made of each transaction's receipt.

        None if the endpoint does not have them (yet). Raises also AnswerTooLargeError."""
        while True:
            method = self._methods.choose(len(transactions), time.monotonic())
            if method == ONE_BY_ONE:
                return await self._receipts_one_by_one(transactions, limit)
            parameter = self._methods.parameter(method, to_hex(block_hash))
            call = self._rpc.call_raw(method, parameter, limit=limit)
            try:
                return _unless_null(await self._found(method, call))
            except RpcFailure as failure:
                if not is_unsupported(failure.code, failure.message):
                    raise
                self._methods.drop(method, time.monotonic())

    async def storage(self, address: Address, slot: Hash, block_hash: Hash) -> str:
        """Return the result of eth_getStorageAt."""
        result: str = await self._call(str, "eth_getStorageAt", to_hex(address), to_hex(slot), to_hex(block_hash))
        return result

    async def proof(self, address: Address, slot: Hash, block_hash: Hash) -> AccountProof:
        """Return the result of eth_getProof for one slot."""
        params = (to_hex(address), [to_hex(slot)], to_hex(block_hash))
        result: AccountProof = await self._call(AccountProof, "eth_getProof", *params)
        return result

    async def _call(self, shape: Any, method: str, *params: object) -> Any:
        await self._check_chain()
        return await self._timed(method, self._rpc.call_typed(shape, method, *params))

    async def view(self, number: int) -> View:
        """Return the endpoint's latest block, and its hash of the block of a number. Raises also InvalidDataError."""
        await self.check_chain()
        calls = [(_BLOCK_BY_NUMBER, ("latest", False)), (_BLOCK_BY_NUMBER, (hex(number), False))]
        latest, block = await self._headers(calls)
        head = None if latest is None else verify_block_ref(latest, False)
        return View(head, None if block is None else verify_block_ref(block, False).hash)

    def failed(self) -> None:
        """After a failure the chain id is checked again, as another node may answer."""
        self._chain_checked = self._refuses_subscriptions = False

    def recheck_chain(self) -> None:
        """Check the chain id again before the next call."""
        self._chain_checked = False

    async def close(self) -> None:
        await self._rpc.close()

    def _on_notification(self) -> None:
        self.notifications += 1
        self._meter.notified("eth_subscription")
        self._on_new_head()

    async def _receipts_one_by_one(self, transactions: Sequence[Hash], limit: AnswerLimit) -> bytes | None:
        """Request the missing receipts up to RECEIPT_ROUNDS times and keeps those that came."""
        result: dict[Hash, bytes] = {}
        for _ in range(RECEIPT_ROUNDS):
            missing = [transaction for transaction in transactions if transaction not in result]
            if not missing:
                break
            calls = [(ONE_BY_ONE, [to_hex(item)]) for item in missing]
            receipts = await self._timed(ONE_BY_ONE, self._rpc.batch(calls, msgspec.Raw, limit), len(calls))
            for item, receipt in zip(missing, receipts, strict=True):
                if isinstance(receipt, RpcFailure):
                    self.record.failed(receipt, 0)
                    raise receipt
                if (text := bytes(receipt)) != b"null":
                    result[item] = text
        if len(result) < len(transactions):
            return None
        return b'{"result":[' + b",".join([result[transaction] for transaction in transactions]) + b"]}"

    async def check_chain(self) -> None:
        """Ask for the chain id now. Raises EndpointError if the endpoint is on another chain."""
        self._chain_checked = False
        await self._check_chain()

    async def _check_chain(self) -> None:
        """Raise EndpointError if the endpoint is on another chain; calls it once, and again after a failure."""
        if self._chain_checked:
            return
        result = await self._timed("eth_chainId", self._rpc.call_typed(str, "eth_chainId"))
        try:
            chain_id = from_quantity(result, 256)
        except HexError:
            raise EndpointError(self.name, "the answer to eth_chainId is not a number") from None
        if chain_id != self._chain_id:
            error = OtherChainError(self.name, f"is on L1 chain {chain_id}, but the rollup is on {self._chain_id}")
            self.record.failed(error, 0)
            raise error
        self._chain_checked = True

    async def _found(self, method: str, call: Awaitable[T]) -> T | None:
        """Await a call as `_timed` does; None for an error that says that there is no such block."""
        try:
            return await self._timed(method, call)
        except RpcFailure as failure:
            if is_not_found(failure.message):
                return None
            raise

    async def _timed(self, method: str, call: Awaitable[T], calls: int = 1) -> T:
        """Await a call, or a batch of `calls`, and record its metrics."""
        with self._meter.timed(method), self.record.timed(calls, _says_no):
            return await call


class L1Endpoints:
    """Endpoints in the order of `l1`; `on_new_head` and `on_set_aside` are called when that happens [LHD26]."""

    def __init__(self, config: L1Config, meter: Meter, on_new_head: Callable[[], None] = lambda: None) -> None:
        self.all = tuple(L1Endpoint(url, config, meter, on_new_head) for url in config.endpoints)
        self.pool = EndpointPool(len(self.all))
        self.on_set_aside: Callable[[], None] = lambda: None
        self._conditions = [LastingCondition(log) for _ in self.all]
        self._meter = EndpointMeter(
            meter, RPC, [endpoint.name for endpoint in self.all], [_label(item) for item in EndpointFault]
        )
        for endpoint in self.all:
            self._meter.set_usable(endpoint.name, True)

    @property
    def in_use(self) -> L1Endpoint | None:
        """The endpoint in use; None if all have asked for patience."""
        index = self.pool.pick(time.monotonic())
        return None if index is None else self.all[index]

    def pick(self) -> L1Endpoint:
        """Return the endpoint in use. Raises EndpointError if all have asked for patience."""
        endpoint = self.in_use
        if endpoint is not None:
            self._meter.use(endpoint.name)
            return endpoint
        wait = self.pool.next_probe(time.monotonic()) or 0.0
        names = " and ".join(endpoint.name for endpoint in self.all)
        raise EndpointError(names, f"overloaded and asked not to retry for {wait:.0f} s", retry_after=wait)

    async def ask(
        self, what: str, call: Callable[[L1Endpoint], Awaitable[T]], endpoint: L1Endpoint | None = None
    ) -> tuple[L1Endpoint, T]:
        """Return the endpoint in use, or the given one, and what a call of it returns.

        Raises TemporaryError with what was asked for."""
        try:
            endpoint = endpoint or self.pick()
            return endpoint, await call(endpoint)
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            if endpoint is not None:
                self.failed(endpoint, error)
            text = f"{what}: {describe_error(endpoint, error)}"
            raise TemporaryError(text, code_of(error)) from None

    def failed(self, endpoint: L1Endpoint, error: Exception) -> None:
        """Record a failure: the endpoint is set aside."""
        retry_after = error.retry_after if isinstance(error, EndpointError) else None
        self.set_aside(endpoint, fault_of(error), describe_error(endpoint, error), retry_after)

    def set_aside(
        self, endpoint: L1Endpoint, fault: EndpointFault, reason: str, retry_after: float | None = None
    ) -> None:
        """Has the next endpoint used until this one does well in a probe."""
        endpoint.failed()
        self._meter.failed(endpoint.name, _label(fault))
        index = self.all.index(endpoint)
        if not self.pool.set_aside(index, fault, reason, time.monotonic(), retry_after):
            return
        self._meter.set_usable(endpoint.name, False)
        if len(self.all) > 1:
            self._conditions[index].report(
                Code.L1_ENDPOINT, "L1 endpoint set aside", endpoint=endpoint.name, fault=fault.words, reason=reason
            )
        self.on_set_aside()

    def restore(self, index: int) -> None:
        """Put an endpoint back into use."""
        self.pool.restore(index)
        self._meter.set_usable(self.all[index].name, True)
        self._conditions[index].end("L1 endpoint used again", endpoint=self.all[index].name)

    def counts(self) -> list[EndpointCounts]:
        """How each of them answers."""
        used, verdicts = self.pool.pick(time.monotonic()), self.pool.verdicts
        return [
            endpoint.record.counts(index == used, "" if verdict is None else verdict.fault.words)
            for index, (endpoint, verdict) in enumerate(zip(self.all, verdicts, strict=True))
        ]

    def recheck_chains(self) -> None:
        """Check the chain id of every endpoint again before its next call."""
        for endpoint in self.all:
            endpoint.recheck_chain()

    async def close(self) -> None:
        for endpoint in self.all:
            await endpoint.close()


def _label(fault: EndpointFault) -> str:
    return fault.name.lower()


def describe_error(endpoint: L1Endpoint | None, error: Exception) -> str:
    """Return an error's text with the name of the endpoint it is about, if there is one."""
    return str(error) if endpoint is None or isinstance(error, EndpointError) else f"{endpoint.name}: {error}"


def header_json_in(body: bytes, limit: AnswerLimit) -> Any:
    """Return the header in a response with a full block; None if it has none. Raises InvalidDataError."""
    return _header_members(parse_result(body, limit, HeaderJson))


def _header_members(header: Any) -> dict[str, Any] | None:
    """Return the members of a JSON-RPC block that header and hash are made of."""
    return None if header is None else msgspec.structs.asdict(header)


def _unless_null(body: bytes | None) -> bytes | None:
    """Return a response, None for one whose result is null; an error in it was raised before."""
    is_null = body is None or (len(body) <= NULL_RESPONSE_SIZE and orjson.loads(body).get("result") is None)
    return None if is_null else body
