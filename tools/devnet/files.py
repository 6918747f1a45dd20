"""The files of a local network: genesis of both chains, rollup.json, keys, JWT secret, `network.json`."""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from rollup_node.stages.protocol.config import KECCAK_COMMITMENT
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.batcher.driver import Key
from rollup_node.tools.devnet.games import ANCHOR, FACTORY, anchor_code, factory_code
from rollup_node.tools.devnet.settings import VERIFIER

L1_CHAIN_ID = 900
L2_CHAIN_ID = 901
ETHER = 10**18
FUNDS = {"balance": hex(10_000 * ETHER)}
GAS_LIMIT = 30_000_000
PORTAL = bytes.fromhex("6900000000000000000000000000000000000001")
SYSTEM_CONFIG = bytes.fromhex("6900000000000000000000000000000000000002")
INBOX = bytes.fromhex("ff00000000000000000000000000000000000901")
PORTAL_CODE = "608036038060805f376060356040356020355f35845fa400"
"""Emits its calldata as one log: four words of topics, then the data."""
SYSTEM_CONFIG_CODE = "606036038060605f376040356020355f35835fa300"
"""Emits its calldata as one log: three words of topics, then the data."""
DA_CHALLENGE = bytes.fromhex("6900000000000000000000000000000000000003")
DA_CHALLENGE_CODE = "5f3560e01c8036038091" + "5f37" + "6020515f51" + "82604090036040a200"
"""Emits a log of two topics and data, which are in its calldata from the offset that the first four bytes are: before
them a call can have arguments of its own."""
CHALLENGE_WINDOW, RESOLVE_WINDOW = 8, 5
BASE_FEE_SCALAR, BLOB_BASE_FEE_SCALAR = 1368, 810_949
PACKED_SCALAR = b"\x01" + bytes(23) + BLOB_BASE_FEE_SCALAR.to_bytes(4, "big") + BASE_FEE_SCALAR.to_bytes(4, "big")
BEDROCK_OVERHEAD, BEDROCK_SCALAR = (188).to_bytes(32, "big"), (684_000).to_bytes(32, "big")
EIP1559 = {"eip1559Elasticity": 6, "eip1559Denominator": 50, "eip1559DenominatorCanyon": 250}
MAX_SEQUENCER_DRIFT, CHANNEL_TIMEOUT = 600, 120
PRAGUE_BLOBS = {"target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716}
"""Osaka's as well; Amsterdam's are those of the newest BPO fork [LIN28, LIN32]."""
BPO_BLOBS = {
    "bpo1": {"target": 10, "max": 15, "baseFeeUpdateFraction": 8_346_193},
    "bpo2": {"target": 14, "max": 21, "baseFeeUpdateFraction": 11_684_671},
}

DEV_KEYS = tuple(
    Key(bytes.fromhex(text))
    for text in (
        "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
        "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
        "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
        "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    )
)
"""The well-known keys of development chains, which are public."""
DEPOSITOR_KEY, BATCHER_KEY, TRANSFER_KEY, RECEIVER_KEY = DEV_KEYS
SIGNER_KEY = Key(bytes.fromhex("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"))
"""Signs the sequencer's unsafe blocks; it needs no funds."""


@dataclass(frozen=True)
class DevnetChain:
    """One L2 chain of a local network: its id, its addresses on L1, and its batcher's key."""

    id: int = L2_CHAIN_ID
    inbox: bytes = INBOX
    portal: bytes = PORTAL
    system_config: bytes = SYSTEM_CONFIG
    batcher: Key = BATCHER_KEY


FIRST_CHAIN = DevnetChain()


def devnet_chain(index: int) -> DevnetChain:
    """Return the chain of an index, which is 0 for the chain of a network of one."""
    if index == 0:
        return FIRST_CHAIN

    def other(address: bytes) -> bytes:
        return address[:1] + index.to_bytes(2, "big") + address[3:]

    key = Key((int.from_bytes(BATCHER_KEY.secret, "big") + index).to_bytes(32, "big"))
    return DevnetChain(L2_CHAIN_ID + index, other(INBOX), other(PORTAL), other(SYSTEM_CONFIG), key)


SIGNER_SLOT = bytes.fromhex("65a7ed542fb37fe237fdfbdd70b31598523fe5b32879e307bae27a0bd9581c08")
"""The storage slot of the SystemConfig contract that holds the unsafe block signer."""


@dataclass(frozen=True)
class NetworkFiles:
    """The path of each file in the data directory.

    `elsewhere` has the folder of the nodes whose files are in another one."""

    root: Path
    elsewhere: Mapping[str, Path] = field(default_factory=dict)

    @property
    def l1_genesis(self) -> Path:
        """The L1's genesis file."""
        return self.root / "l1-genesis.json"

    @property
    def l2_genesis(self) -> Path:
        """The engines' genesis file."""
        return self.root / "l2-genesis.json"

    @property
    def rollup(self) -> Path:
        """The file for `rollup.config`."""
        return self.root / "rollup.json"

    @property
    def dependency_set(self) -> Path:
        """The file for `interop.dependency-set`."""
        return self.root / "dependency-set.json"

    @property
    def l1_chain(self) -> Path:
        """The file for `rollup.l1-chain-config`."""
        return self.root / "l1-chain-config.json"

    @property
    def beacon_network(self) -> Path:
        """The file for `l1.checkpoint.network`."""
        return self.root / "beacon-network.json"

    @property
    def jwt(self) -> Path:
        """The JWT secret of all engines."""
        return self.root / "jwt.txt"

    @property
    def batcher_key(self) -> Path:
        """The batcher's key."""
        return self.root / "batcher-key.txt"

    @property
    def signer_key(self) -> Path:
        """The key of the signer, or of the sequencer without one."""
        return self.root / "signer-key.txt"

    @property
    def network(self) -> Path:
        """The description of the running network."""
        return self.root / "network.json"

    @property
    def clock(self) -> Path:
        """How far the verifier's clock is ahead, where it has one of its own."""
        return self.root / f"{VERIFIER}-clock.txt"

    def log(self, name: str) -> Path:
        """Return the log of a program."""
        return self._folder(name) / f"{name}.log"

    def _folder(self, name: str) -> Path:
        return self.elsewhere.get(name, self.root)

    def node(self, name: str) -> Path:
        """Return the runtime directory of a node."""
        return self._folder(name) / name

    def engine_data(self, name: str) -> Path:
        """Return the directory in which the embedded engine of a node keeps its chain."""
        return self.root / f"{name}-engine-data"

    def engine_ipc(self, name: str) -> Path:
        """Return the path of the socket of the embedded engine of a node."""
        return self.root / f"{name}-engine.ipc"

    def peer_key(self, name: str) -> Path:
        """Return the P2P key of a node."""
        return self.root / f"{name}-p2p-key.txt"

    def peer_database(self, name: str) -> Path:
        """Return the peerstore of a node."""
        return self._folder(name) / f"{name}-peers.db"

    def discovery_database(self, name: str) -> Path:
        """Return the discovery database of a node."""
        return self._folder(name) / f"{name}-discovery.db"

    def bundles(self, name: str) -> Path:
        """Return the directory for the upgrade bundles that a node writes."""
        return self._folder(name) / f"{name}-bundles"

    def proven_root(self, name: str) -> Path:
        """Return the file in which a node keeps the newest finalized root of L1's beacon chain."""
        return self._folder(name) / f"{name}-proven-root.json"

    def safe_head_database(self, name: str) -> Path:
        """Return the safe head database of a node."""
        return self._folder(name) / f"{name}-safe-heads.db"


def write_json(path: Path, value: Any) -> None:
    """Write a file by rename, so that readers see the old or the new text."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value, indent=2) + "\n")
    fresh.replace(path)


def write_secrets(files: NetworkFiles, nodes: Sequence[str], chain: DevnetChain = FIRST_CHAIN) -> None:
    """Write the JWT secret, the keys of batcher and signer and the P2P keys of `nodes`, unless present.

    They are readable by the owner."""
    keys = [(files.peer_key(name), secrets.token_hex(32)) for name in nodes]
    keys += [(files.batcher_key, chain.batcher.secret.hex()), (files.signer_key, SIGNER_KEY.secret.hex())]
    for path, text in ((files.jwt, secrets.token_hex(32)), *keys):
        if not path.exists():
            path.touch(mode=0o600)  # before the secret is in it
            path.write_text(text + "\n")


def l1_genesis(
    timestamp: int,
    forks: Mapping[str, int] = MappingProxyType({}),
    chains: Sequence[DevnetChain] = (FIRST_CHAIN,),
) -> dict[str, Any]:
    """Return the genesis file of an L1 with Prague active, its contracts, and funds for the keys of the chains.

    `timestamp` in seconds; `forks` are those after Prague, with the seconds after it at which each activates."""
    return {
        "config": l1_chain_config({fork: timestamp + offset if offset else 0 for fork, offset in forks.items()}),
        "timestamp": hex(timestamp),
        "gasLimit": hex(GAS_LIMIT * 2),
        "baseFeePerGas": hex(10**9),
        "difficulty": "0x0",
        "alloc": {
            **{to_hex(key.address): FUNDS for key in (*DEV_KEYS, *(chain.batcher for chain in chains))},
            to_hex(DA_CHALLENGE): {"balance": "0x0", "code": "0x" + DA_CHALLENGE_CODE},
            to_hex(FACTORY): {"balance": "0x0", "code": to_hex(factory_code())},
            to_hex(ANCHOR): {"balance": "0x0", "code": to_hex(anchor_code())},
            **{to_hex(chain.portal): {"balance": "0x0", "code": "0x" + PORTAL_CODE} for chain in chains},
            **{to_hex(chain.system_config): _system_config() for chain in chains},
        },
    }


def _system_config() -> dict[str, Any]:
    storage = {to_hex(SIGNER_SLOT): to_hex(SIGNER_KEY.address.rjust(32, b"\0"))}
    return {"balance": "0x0", "code": "0x" + SYSTEM_CONFIG_CODE, "storage": storage}


def l1_chain_config(times: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
    """Return the L1's chain config with its blob schedule, the content of `rollup.l1-chain-config`.

    `times` are those of the forks after Prague in seconds."""
    blocks = ("homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople", "petersburg", "istanbul")
    return {
        "chainId": L1_CHAIN_ID,
        **{f"{name}Block": 0 for name in (*blocks, "berlin", "london")},
        "terminalTotalDifficulty": 0,
        "shanghaiTime": 0,
        "cancunTime": 0,
        "pragueTime": 0,
        **{f"{fork}Time": time for fork, time in times.items()},
        "blobSchedule": {
            "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3_338_477},
            "prague": PRAGUE_BLOBS,
            **{fork: schedule for fork, schedule in BPO_BLOBS.items() if fork in times},
        },
    }


def dependency_set(others: Iterable[int] = (), first: int = L2_CHAIN_ID) -> dict[str, Any]:
    """Return the dependency set of a chain and others."""
    return {"dependencies": {str(chain): {} for chain in (first, *others)}}


class ChainSettings(Protocol):
    """What the settings of a network say of each of its L2 chains; times in seconds, the window in L1 blocks."""

    @property
    def forks(self) -> Mapping[str, int]: ...

    @property
    def l2_block_time(self) -> int: ...

    @property
    def sequencing_window(self) -> int: ...

    @property
    def altda(self) -> str | None: ...


def rollup_json(
    settings: ChainSettings, l1_hash: str, l2_hash: str, l2_time: int, chain: DevnetChain = FIRST_CHAIN
) -> dict[str, Any]:
    """Return the rollup config for two genesis blocks; `l2_time` in seconds.

    Its fee parameters have the format of the first fork [SYS2 to SYS6]."""
    rules = ForkSchedule(settings.forks, settings.l2_block_time, CHANNEL_TIMEOUT, MAX_SEQUENCER_DRIFT).l1(0)
    overhead, scalar = (bytes(32), PACKED_SCALAR) if rules.packed_fee_scalars else (BEDROCK_OVERHEAD, BEDROCK_SCALAR)
    return {
        "genesis": {
            "l1": {"hash": l1_hash, "number": 0},
            "l2": {"hash": l2_hash, "number": 0},
            "l2_time": l2_time,
            "system_config": {
                "batcherAddr": to_hex(chain.batcher.address),
                "overhead": to_hex(overhead),
                "scalar": to_hex(scalar),
                "gasLimit": GAS_LIMIT,
                "eip1559Params": "0x0000000000000000",
                "operatorFeeParams": to_hex(bytes(32)),
                "minBaseFee": 0,
                "daFootprintGasScalar": 0,
            },
        },
        "block_time": settings.l2_block_time,
        "max_sequencer_drift": MAX_SEQUENCER_DRIFT,
        "seq_window_size": settings.sequencing_window,
        "channel_timeout": CHANNEL_TIMEOUT,
        "l1_chain_id": L1_CHAIN_ID,
        "l2_chain_id": chain.id,
        **{f"{fork}_time": (l2_time + offset if offset else 0) for fork, offset in settings.forks.items()},
        "batch_inbox_address": to_hex(chain.inbox),
        "deposit_contract_address": to_hex(chain.portal),
        "l1_system_config_address": to_hex(chain.system_config),
        "chain_op_config": EIP1559,
        **({"alt_da": _alt_da()} if settings.altda else {}),
    }


def _alt_da() -> dict[str, Any]:
    return {
        "da_challenge_contract_address": to_hex(DA_CHALLENGE),
        "da_commitment_type": KECCAK_COMMITMENT,
        "da_challenge_window": CHALLENGE_WINDOW,
        "da_resolve_window": RESOLVE_WINDOW,
    }
