"""A local network of several chains as a program under test."""

import os
import re
import signal
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.tools.devnet.files import NetworkFiles
from tests.support.processes.programs import WAIT_SECONDS, Devnet, call, http_get, process_entries

CHAINS = (901, 902)
MESSAGES = ("--interop", "4", "--invalid", "2", "--expiry", "20")

_DENIAL = re.compile(r"code=INTEROP-INVALID chain=(\d+) block=(\d+):(0x\w+)")


class OneChain(NamedTuple):
    """One chain of a network of several, as if it were the only one."""

    root: Path
    network: dict[str, Any]


class Chains(Devnet):
    """A network of two chains (`rollup-node devnet --chains 2`), and the supernodes that follow both."""

    nodes = ()

    @property
    def supernodes(self) -> dict[str, str]:
        """The URLs of the supernodes by name."""
        result: dict[str, str] = self.network["supernodes"]
        return result

    def chain(self, chain_id: int) -> OneChain:
        """Return what a program of one chain reads."""
        about: dict[str, Any] = self.network
        genesis = NetworkFiles(self.root / str(chain_id)).l2_genesis
        return OneChain(self.root, about | about["chains"][str(chain_id)] | {"l2_genesis": str(genesis)})

    def head(self, chain: int, head: str = "safe_l2", name: str = "supernode") -> dict[str, Any]:
        """Return a head of a chain as a supernode has it; empty while it has none, which are zeros then."""
        result: dict[str, Any] = call(f"{self.supernodes[name]}/{chain}/", "optimism_syncStatus")[head]
        return result if int(result["hash"], 16) else {}

    def height(self, chain: int, head: str = "safe_l2", name: str = "supernode") -> int:
        """Return the number of a head; -1 while it is not told."""
        return int(self.head(chain, head, name).get("number", -1))

    def wait_for_height(self, number: int, name: str = "supernode") -> None:
        """Wait until the safe head of all chains has at least that number."""
        self.wait(lambda: min(self.height(chain, name=name) for chain in CHAINS) >= number, f"block {number} of {name}")

    def super_root(self, timestamp: int, name: str = "supernode") -> str | None:
        """Return the super root of a time as a supernode tells it; None for one that is not verified."""
        data = call(self.supernodes[name], "superroot_atTimestamp", hex(timestamp)).get("data")
        return None if data is None else str(data["super_root"])

    def entry(self, role: str, chain: int | None = None) -> dict[str, Any] | None:
        """Return the entry of a process of a chain or of all chains, None if it does not run now."""
        entries = process_entries(self.root / "supernode")
        return entries.get(f"{role}.{chain}") or entries.get(role)

    def kill_role(self, role: str, chain: int | None = None) -> dict[str, Any]:
        """Kill a process of the supernode once it runs; its entry."""

        def killed() -> dict[str, Any] | None:
            entry = self.entry(role, chain)
            if entry is not None:
                try:
                    os.kill(entry["pid"], signal.SIGKILL)
                except ProcessLookupError:
                    return None
            return entry

        entry = self.wait(killed, f"{role} runs")
        assert entry is not None
        return entry

    def reasons(self, name: str = "supernode") -> str:
        """Return what `/readyz` of a supernode says."""
        return http_get(self.supernodes[name] + "/readyz")[1]

    def denials(self) -> list[tuple[int, int, str]]:
        """Return chain, number and the beginning of the hash of all blocks that the supernode has denied so far."""
        return [(int(chain), int(number), block) for chain, number, block in _DENIAL.findall(self.log("supernode"))]

    def finish(self, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Stop the network in order; its result, in which all roots are equal."""
        finished = self.stop(seconds)
        result = finished.json_result()
        assert (finished.code, finished.err, result["differences"]) == (0, "", []), f"{finished}\n{self.logs()}"
        return result
