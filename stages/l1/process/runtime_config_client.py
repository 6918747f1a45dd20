"""Reads the runtime config from L1's state [RTC1 to RTC4]: with proofs, or without them under `l1.trustrpc`."""

from collections.abc import Callable
from functools import partial

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


_OF_ONE = (Code.L1_BLOCK, Code.L1_UNPROVEN)
"""Failures that may concern one chain alone: its block, or the state there."""


class _AlreadyRead:
    """What an endpoint has answered in a step, which other chains need as well."""

    def __init__(self, endpoint: L1Endpoint) -> None:
        self.endpoint = endpoint
        self.blocks: dict[str, tuple[Header, Hash]] = {}
        self.slots: dict[tuple[str, Address, Hash], bytes] = {}


class RuntimeConfigReader:
    """Reads at the L1 head less a chain's confirmations [RTC1]; `head` is its number or None, `publish` takes values.

    What several chains share is read once, and one that cannot be read stops no other [LHD32].

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
        self._last: dict[int, RuntimeConfig] = {}
        self._read: _AlreadyRead | None = None
        self._condition = LastingCondition(log)

    async def step(self) -> float:
        """Read once; the seconds until the next time. Raises TemporaryError if a chain fails that never succeeded."""
        interval = self._config.runtime_config_interval
        is_complete = len(self._last) == len(self._config.rollups)
        if is_complete and interval <= 0:
            return NEVER_SECONDS
        head = self._head()
        if head is None and (self._config.poll_interval > 0 or self._proof is not None):
            return HEAD_WAIT_SECONDS
        failures = await self._read_all(head)
        missing = next((failures[chain] for chain in failures if chain not in self._last), None)
        if missing is not None:
            raise missing
        if not failures:
            self._condition.end("the runtime config was reloaded")
            return interval if interval > 0 else NEVER_SECONDS
        text = "failed to reload the runtime config; the last one stays in force"
        error = next(iter(failures.values()))
        if error.code is Code.L1_BLOCK:
            self._condition.report(Code.RUNTIME_CONFIG, text, error=error)
        else:
            log.debug(text, error=error)
        return min(interval, RETRY_SECONDS) if interval > 0 else RETRY_SECONDS

    async def _read_all(self, head: int | None) -> dict[int, TemporaryError]:
        """Read and publish the values of all chains that can be read; why others cannot, by L2 chain id."""
        failures: dict[int, TemporaryError] = {}
        before, self._read = self._last, None
        for rollup in self._config.rollups:
            chain = rollup.l2_chain_id
            of = f" of chain {chain}" if len(self._config.rollups) > 1 else ""
            try:
                what = f"the runtime config{of} cannot be read from L1"
                _, config = await self._endpoints.ask(what, partial(self._read_chain, rollup, head))
            except TemporaryError as error:
                failures[chain] = error
                if error.code not in _OF_ONE:
                    failures |= dict.fromkeys([other.l2_chain_id for other in self._config.rollups], error)
                    break
                continue
            signer, fields = config.unsafe_block_signer, {"chain": chain} if of else {}
            if chain not in before or signer != before[chain].unsafe_block_signer:
                log.info("unsafe block signer", address="none" if signer == ZERO_ADDRESS else to_hex(signer), **fields)
            self._last = {**self._last, chain: config}
        if self._last is not before:
            self._publish(RuntimeConfigs(self._last))
        return failures

    async def _read_chain(self, rollup: RollupConfig, head: int | None, endpoint: L1Endpoint) -> RuntimeConfig:
        if self._read is None or self._read.endpoint is not endpoint:
            self._read = _AlreadyRead(endpoint)
        blocks, slots = self._read.blocks, self._read.slots
        block = "latest" if head is None else hex(self._confirmed(head, rollup))
        if block not in blocks:
            blocks[block] = await self._read_block(endpoint, block)
        keys = [(block, contract, slot) for contract, slot in self._slots(rollup)]
        for key in [key for key in keys if key not in slots]:
            slots[key] = await self._read_slot(endpoint, *blocks[block], *key[1:])
        values = [slots[key] for key in keys]
        return RuntimeConfig(verify.address_in(values[0]), *values[1:])

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
