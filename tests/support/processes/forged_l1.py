"""An L1 that lies: valid blocks from the genesis of a local network's L1, signed by a third of each sync committee.

It mints on L2 what nobody has paid on L1."""

from rollup_node.stages.protocol.hex_encoding import to_hex
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, EmbeddedL1, call
from tests.support.processes.sent_transactions import send_deposit

WINDOW = ("--sequencing-window", "10")
"""Flags of a network on which L2 blocks with the deposits alone are derived where no batches come for ten L1 blocks."""
THIEF = to_hex(bytes(19) + b"\x99")
LOOT = 10**24
"""Wei."""


class ForgedL1(EmbeddedL1):
    """The program. Its pool has a deposit to THIEF."""

    def __init__(self, leftovers: Leftovers, net: Devnet, *flags: str) -> None:
        genesis = net.wait(lambda: net.network["nodes"] and str(net.root / "l1-genesis.json"), "the network")
        super().__init__(leftovers, genesis, "--branch", "1", "--signers", "10", *flags)
        steal(self.url)


def steal(l1: str) -> None:
    """Put a deposit to THIEF into the pool of a forged L1; nobody has paid it on another."""
    send_deposit(l1, bytes.fromhex(THIEF[2:]), LOOT)


def has_block(l1: str, block: dict[str, object]) -> bool:
    """Whether a block of a node's status is one of the forged L1 at a URL alone."""
    return block["number"] != 0 and call(l1, "eth_getBlockByHash", block["hash"], False) is not None


def has_loot(engine: str) -> bool:
    """Whether an engine has executed the deposit; `engine` is its public URL."""
    return int(call(engine, "eth_getBalance", THIEF, "latest"), 16) == LOOT
