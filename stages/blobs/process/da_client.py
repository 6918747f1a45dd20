"""The client of the Alt-DA server: reads the inputs of commitments [ADA1 to ADA3]."""

import asyncio
import time

import aiohttp
from yarl import URL

from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name, why_not_connected
from rollup_node.stages.io.http.endpoint_record import EndpointRecord
from rollup_node.stages.io.http.rpc_meter import NO_ANSWER, OK, RpcMeter
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
        self._session: aiohttp.ClientSession | None = None

    async def get(self, commitment: Commitment, ahead: bool = False) -> InputResponse | InputTooLarge:
        """Return the input of a commitment.

        Raises InputNotFoundError, TooLargeAheadError if it is read `ahead` of need, and EndpointError for any other
        failure."""
        start = time.monotonic()
        try:
            found = await self._get(commitment, ahead)
        except (InputNotFoundError, TooLargeAheadError):
            self.record.answered(time.monotonic() - start)
            raise
        except EndpointError as failure:
            self.record.failed(failure)
            raise
        self.record.answered(time.monotonic() - start)
        return found

    async def _get(self, commitment: Commitment, ahead: bool) -> InputResponse | InputTooLarge:
        """One request, whose metrics are recorded."""
        self._meter.sent(METHOD)
        start, error = time.monotonic(), NO_ANSWER
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._exchange(commitment, ahead)
            size = len(found.data) if isinstance(found, InputResponse) else found.size
            self._meter.exchanged(METHOD, len(commitment.encode()), size)
            error = OK
            return found
        except TimeoutError:
            raise EndpointError(self.name, f"no answer within {self._timeout:g} s") from None
        except EndpointError as failure:
            error = f"http_{failure.status}" if failure.status else error
            raise
        except aiohttp.ClientConnectorError as failure:
            raise EndpointError(self.name, f"cannot connect ({why_not_connected(failure.os_error)})") from None
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            raise EndpointError(self.name, f"the connection failed ({type(failure).__name__})") from None
        finally:
            self._meter.ended(METHOD, time.monotonic() - start, error)

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(self, commitment: Commitment, ahead: bool) -> InputResponse | InputTooLarge:
        # A hosted server may have its key in the path or the query of its URL.
        url = self._base.with_path(f"{self._base.path.rstrip('/')}/get/{to_hex(commitment.encode())}")
        url = url.with_query(self._base.query)
        async with self._open().get(url, allow_redirects=False) as response:
            if response.status == _NOT_FOUND:
                raise InputNotFoundError(self.name, f"does not have the input of {commitment}", response.status)
            if response.status != 200:
                raise EndpointError(self.name, f"HTTP status {response.status}", response.status)
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise EndpointError(self.name, "the input is compressed, which was not asked for")
            hashed = commitment.kind == KECCAK and self._verify
            limit = AHEAD_BODY if ahead else MAX_HASHED if hashed else MAX_BODY
            return await self._read(response, commitment, limit, hashed)

    async def _read(
        self, response: aiohttp.ClientResponse, commitment: Commitment, limit: int, hashed: bool
    ) -> InputResponse | InputTooLarge:
        """Return the body.

        Of one that is too large to be used nothing is kept; whether it matches still decides if it is skipped [AD7]."""
        keep = MAX_KECCAK_INPUT if commitment.kind == KECCAK else limit
        hasher = Keccak256() if hashed else None
        body, size = bytearray(), 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > keep:
                body.clear()
                if hasher is None or size > limit:
                    response.close()
                    break
            else:
                body += part
            if hasher is not None:
                hasher.update(part)
        if size > limit:
            error = TooLargeAheadError if limit == AHEAD_BODY else EndpointError
            raise error(self.name, f"the input is longer than {limit} bytes")
        if hasher is not None and hasher.digest() != commitment.content:
            raise EndpointError(self.name, f"sends {size} bytes that do not match commitment {commitment}")
        return InputTooLarge(commitment, size) if size > keep else InputResponse(commitment, bytes(body))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                headers={"Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session
