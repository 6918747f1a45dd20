"""Reads the runtime config from L1's state [RTC1 to RTC4]: with proofs, or without them under `l1.trustrpc`."""

from collections.abc import Callable

from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.l1 import verify
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.process.refs_client import check_refs
from rollup_node.stages.l1.proof import Proof
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import RuntimeConfig, RuntimeConfigs
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.headers import Header
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address, Hash, L1BlockRef

log = Logger("l1")

HEAD_WAIT_SECONDS = 0.5
NEVER_SECONDS = 3600.0
RETRY_SECONDS = 60.0


class RuntimeConfigReader:
    """Reads at the L1 head less a chain's confirmations [RTC1]; `head` is its number or None, `publish` takes values.

    What several chains share is read once [LHD32].

    With `proof` it is the state of a proven block."""

    def __init__(
        self,
        config: L1Config,
        endpoints: L1Endpoints,
        head: Callable[[], int | None],
        publish: Callable[[RuntimeConfigs], None],
        proof: Proof | None = None,
    ) -> None:
        self._config, self._endpoints, self._proof = config, endpoints, proof
        self._head, self._publish = head, publish
        self._last: RuntimeConfigs | None = None
        self._condition = LastingCondition(log)

    async def step(self) -> float:
        """Read once; the seconds until the next time. Raises TemporaryError if it fails before the first success."""
        interval = self._config.runtime_config_interval
        if self._last is not None and interval <= 0:
            return NEVER_SECONDS
        head = self._head()
        if head is None and (self._config.poll_interval > 0 or self._proof is not None):
            return HEAD_WAIT_SECONDS
        try:
            what = "the runtime config cannot be read from L1"
            _, chains = await self._endpoints.ask(what, lambda endpoint: self._read(endpoint, head))
            result = RuntimeConfigs(chains)
        except TemporaryError as error:
            if self._last is None:
                raise
            text = "failed to reload the runtime config; the last one stays in force"
            if error.code is Code.L1_BLOCK:
                self._condition.report(Code.RUNTIME_CONFIG, text, error=error)
            else:
                log.debug(text, error=error)
            return min(interval, RETRY_SECONDS)
        self._condition.end("the runtime config was reloaded")
        for chain, config in result.chains.items():
            signer, fields = config.unsafe_block_signer, {"chain": chain} if len(result.chains) > 1 else {}
            if self._last is None or signer != self._last.chains[chain].unsafe_block_signer:
                log.info("unsafe block signer", address="none" if signer == ZERO_ADDRESS else to_hex(signer), **fields)
        self._last = result
        self._publish(result)
        return interval if interval > 0 else NEVER_SECONDS

    async def _read(self, endpoint: L1Endpoint, head: int | None) -> dict[int, RuntimeConfig]:
        blocks: dict[str, tuple[Header, Hash]] = {}
        read: dict[tuple[str, Address, Hash], bytes] = {}
        result: dict[int, RuntimeConfig] = {}
        for rollup in self._config.rollups:
            block = "latest" if head is None else hex(self._confirmed(head, rollup))
            if block not in blocks:
                blocks[block] = await self._read_block(endpoint, block)
            keys = [(block, contract, slot) for contract, slot in self._slots(rollup)]
            for key in [key for key in keys if key not in read]:
                read[key] = await self._read_slot(endpoint, *blocks[block], *key[1:])
            values = [read[key] for key in keys]
            result[rollup.l2_chain_id] = RuntimeConfig(verify.address_in(values[0]), *values[1:])
        return result

    def _confirmed(self, head: int, rollup: RollupConfig) -> int:
        confs = self._config.confirmations(rollup)
        return head - confs if head >= confs else head

    async def _read_block(self, endpoint: L1Endpoint, block: str) -> tuple[Header, Hash]:
        result = await endpoint.block_json(block)
        if result is None:
            raise verify.InvalidDataError(f"there is no block {block}")
        header, block_hash = verify.verify_header(result, self._config.trust_rpc)
        ref = L1BlockRef(block_hash, header.number, header.parent_hash, header.timestamp)
        # Where heads are proven, the block has to be, too [LCP15].
        problem = None if self._proof is None else check_refs(self._proof, [ref])
        if problem is not None:
            raise TemporaryError(f"the runtime config cannot be read from L1: {problem.text}", problem.code)
        return header, block_hash

    def _slots(self, rollup: RollupConfig) -> list[tuple[Address, Hash]]:
        """Contract and slot of a chain's values to read, in the order of RuntimeConfig [RTC4, PRV2]."""
        slots = [(rollup.l1_system_config, verify.SIGNER_SLOT)]
        if self._config.protocol_versions and rollup.protocol_versions != ZERO_ADDRESS:
            slots += [(rollup.protocol_versions, slot) for slot in (verify.REQUIRED_SLOT, verify.RECOMMENDED_SLOT)]
        return slots

    async def _read_slot(
        self, endpoint: L1Endpoint, header: Header, block_hash: Hash, contract: Address, slot: Hash
    ) -> bytes:
        if self._config.trust_rpc:
            return verify.stored_value(await endpoint.storage(contract, slot, block_hash))
        return verify.proven_value(await endpoint.proof(contract, slot, block_hash), header.state_root, contract, slot)
