"""Reads the runtime config from L1's state: verified by proofs, or as told where `l1.trustrpc` says so."""

from collections.abc import Callable

from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.runtime_config import SIGNER_SLOT, address_in, proven_value, stored_value
from rollup_node.stages.l1.verify import InvalidDataError, verify_header
from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex, to_quantity
from rollup_node.stages.protocol.types import ZERO_ADDRESS

log = get_logger("l1")

WAIT_FOR_HEAD = 0.5
NEVER_AGAIN = 3600.0
RETRY_SECONDS = 60.0


class RuntimeConfigReader:
    """`head` gives the number of the L1 head, `publish` is told of what was read. Read at the head less the
    confirmations that a verifier waits for (node-behaviour 9.1)."""

    def __init__(
        self,
        config: L1Config,
        endpoints: L1Endpoints,
        head: Callable[[], int | None],
        publish: Callable[[RuntimeConfig], None],
    ) -> None:
        self._config, self._endpoints = config, endpoints
        self._head, self._publish = head, publish
        self._last: RuntimeConfig | None = None

    async def step(self) -> float:
        """Reads once; the pause until the next time."""
        interval = self._config.runtime_config_interval
        if self._last is not None and interval <= 0:
            return NEVER_AGAIN
        head = self._head()
        if head is None and self._config.poll_interval > 0:
            return WAIT_FOR_HEAD
        try:
            found = await self._read("latest" if head is None else to_quantity(self._confirmed(head)))
        except TemporaryError as error:
            if self._last is None:
                raise
            log.warn("what was read before stays in force", problem=str(error))
            return min(interval, RETRY_SECONDS)
        if found != self._last:
            signer = "none" if found.unsafe_block_signer == ZERO_ADDRESS else to_hex(found.unsafe_block_signer)
            log.info("unsafe block signer", address=signer)
        self._last = found
        self._publish(found)
        return interval if interval > 0 else NEVER_AGAIN

    def _confirmed(self, head: int) -> int:
        confs = self._config.verifier_confs
        return head - confs if head >= confs else head

    async def _read(self, block: str) -> RuntimeConfig:
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            return RuntimeConfig(address_in(await self._slot(endpoint, block)))
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            if endpoint is not None:
                self._endpoints.failed(endpoint, error)
            name = "" if endpoint is None or isinstance(error, EndpointError) else f"{endpoint.name}: "
            raise TemporaryError(f"the unsafe block signer cannot be read from L1: {name}{error}") from None

    async def _slot(self, endpoint: L1Endpoint, block: str) -> bytes:
        trust, contract = self._config.trust_rpc, self._config.rollup.l1_system_config
        found = await endpoint.block_json(block)
        if found is None:
            raise InvalidDataError(f"there is no block {block}")
        header, block_hash = verify_header(found, trust)
        if trust:
            return stored_value(await endpoint.storage(contract, SIGNER_SLOT, block_hash))
        answer = await endpoint.proof(contract, SIGNER_SLOT, block_hash)
        return proven_value(answer, header.state_root, contract, SIGNER_SLOT)
