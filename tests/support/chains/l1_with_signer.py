"""An embedded L1 whose SystemConfig contract has an unsafe block signer in its storage."""

from rollup_node.stages.l1.verify import SIGNER_SLOT
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend

SIGNER = bytes.fromhex("f39fd6e51aad88f6f4ce6ab8827279cfffb92266")
CONTRACT = bytes.fromhex("6900000000000000000000000000000000000002")
GENESIS_TIME = 1_700_000_000


def l1_with_signer(storage: dict[str, str] | None = None) -> L1Backend:
    """Three blocks on a genesis with this storage of the contract; without any given, the signer is set."""
    genesis = l1_genesis(GENESIS_TIME)
    stored = {to_hex(SIGNER_SLOT): to_hex(SIGNER.rjust(32, b"\0"))} if storage is None else storage
    genesis["alloc"][to_hex(CONTRACT)]["storage"] = stored
    backend = L1Backend(genesis, 2)
    for number in range(1, 4):
        backend.mine(GENESIS_TIME + 2 * number)
    return backend
