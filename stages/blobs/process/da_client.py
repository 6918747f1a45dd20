"""The client of the Alt-DA server: reads the inputs of commitments [ADA1 to ADA3]."""

import time

from yarl import URL

from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, endpoint_name
from rollup_node.stages.io.http.endpoint_record import EndpointRecord, RpcMeter
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.blobs import InputResponse, InputTooLarge
from rollup_node.stages.protocol.commitments import KECCAK, MAX_KECCAK_INPUT, Commitment
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import Keccak256

RPC, METHOD = "da-server", "get"
MAX_BODY = 32 << 20
"""Bytes of an input: twice what the DA layers in use take."""
MAX_HASHED = 1 << 30
"""Bytes of an input of a keccak commitment that are hashed without being kept: if they match, it is skipped [AD7]."""
AHEAD_BODY = 4 << 20
"""Bytes of an input that is read ahead: several are at the same time."""
UNLIMITED_SECONDS = 600.0
"""Bounds a request without a timeout of its own: a server that sends byte by byte must not stop derivation for good."""
_NOT_FOUND = 404


class InputNotFoundError(EndpointError):
    """The DA server answers that it does not have the input."""


class TooLargeAheadError(EndpointError):
    """The input is too large to be read before it is needed."""


class DaClient:
    """One DA server."""

    def __init__(self, config: DaServerConfig, meter: Meter) -> None:
        self.name = endpoint_name(config.url)
        self.record = EndpointRecord("da-server", self.name)
        self._base, self._verify, self._meter = URL(config.url), config.verify_on_read, RpcMeter(meter, RPC)
        self._timeout = config.get_timeout or UNLIMITED_SECONDS
        self._http = HttpClient(config.url, self.name)

    async def get(self, commitment: Commitment, ahead: bool = False) -> InputResponse | InputTooLarge:
        """Return the input of a commitment.

        Raises InputNotFoundError, TooLargeAheadError if it is read `ahead` of need, and EndpointError for any other
        failure."""
        try:
            with self._meter.timed(METHOD) as began:
                read = await self._exchange(commitment, ahead)
        except (InputNotFoundError, TooLargeAheadError):
            self.record.answered(time.monotonic() - began)
            raise
        except EndpointError as failure:
            self.record.failed(failure)
            raise
        self.record.answered(time.monotonic() - began)
        size = len(read.data) if isinstance(read, InputResponse) else read.size
        self._meter.exchanged(METHOD, len(commitment.encode()), size)
        return read

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _exchange(self, commitment: Commitment, ahead: bool) -> InputResponse | InputTooLarge:
        # A hosted server may have its key in the path or the query of its URL.
        url = self._base.with_path(f"{self._base.path.rstrip('/')}/get/{to_hex(commitment.encode())}")
        url = url.with_query(self._base.query)
        hashed = commitment.kind == KECCAK and self._verify
        limit = AHEAD_BODY if ahead else MAX_HASHED if hashed else MAX_BODY
        reading = InputReading(commitment, limit, hashed)
        try:
            answer = await self._http.get(url, {"Accept-Encoding": "identity"}, self._timeout, limit, reading.take)
        except AnswerTooLargeError:
            return reading.too_large(self.name)
        if answer.status == _NOT_FOUND:
            raise InputNotFoundError(self.name, f"does not have the input of {commitment}", answer.status)
        if answer.status != 200:
            raise EndpointError(self.name, f"HTTP status {answer.status}", answer.status)
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise EndpointError(self.name, "the input is compressed, which was not asked for")
        return reading.input(self.name)


class InputReading:
    """A body that is read: of one that is too large to be used nothing is kept, and whether it matches still decides if
    it is skipped [AD7]. It has at most `limit` bytes, and is `hashed` if it has to match."""

    def __init__(self, commitment: Commitment, limit: int, hashed: bool) -> None:
        self._commitment, self._limit = commitment, limit
        self._most = MAX_KECCAK_INPUT if commitment.kind == KECCAK else limit
        self._hasher = Keccak256() if hashed else None
        self._body, self._size = bytearray(), 0

    def take(self, part: bytes) -> None:
        """Take some bytes."""
        self._size += len(part)
        if self._size <= self._most:
            self._body += part
        else:
            self._body.clear()
        if self._hasher is not None:
            self._hasher.update(part)

    def input(self, endpoint: str) -> InputResponse | InputTooLarge:
        """Return what a whole body is. Raises EndpointError where it does not match."""
        if self._hasher is not None and self._hasher.digest() != self._commitment.content:
            text = f"sends {self._size} bytes that do not match commitment {self._commitment}"
            raise EndpointError(endpoint, text)
        if self._size > self._most:
            return InputTooLarge(self._commitment, self._size)
        return InputResponse(self._commitment, bytes(self._body))

    def too_large(self, endpoint: str) -> InputTooLarge:
        """Return what a body of more than the limit is. Raises EndpointError where it has to be read again."""
        if self._hasher is None and self._most < self._limit:
            return InputTooLarge(self._commitment, self._limit + 1)
        error = TooLargeAheadError if self._limit == AHEAD_BODY else EndpointError
        raise error(endpoint, f"the input is longer than {self._limit} bytes")
