"""The hard ends: a supervisor killed, the command of the local network killed. Nothing of theirs may remain."""

import os
import signal
from pathlib import Path
from typing import Any

from tests.support.programs import Devnet, is_alive, wait_for


def sockets_below(folder: Path) -> list[str]:
    """Unix sockets under a folder, as files or as the kernel knows them."""
    bound = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if f"{folder}/" in line]
    return bound + [str(path) for path in folder.rglob("*") if path.is_socket()]


def test_what_is_killed_leaves_nothing_behind(leftovers: Any) -> None:
    """A supervisor, then the command, which is suspended in between: it would end in order when a node has ended."""
    with Devnet(leftovers) as net:
        net.wait(lambda: all(map(net.is_ready, net.nodes)), "both nodes to be ready")
        folder = Path(net.node("verifier")["processes"]).parent
        pids = [entry["pid"] for entry in net.processes("verifier").values()]
        assert len(pids) == 9 and all(map(is_alive, pids)) and sockets_below(folder)
        net.process.send_signal(signal.SIGSTOP)
        os.kill(net.process_entry("verifier", "supervisor")["pid"], signal.SIGKILL)

        def left() -> list[object]:
            return [*filter(is_alive, pids), *sockets_below(folder), *([folder] if folder.exists() else [])]

        wait_for(lambda: not left(), "nothing to be left")
        net.wait(lambda: net.is_ready("sequencer"), "the other node to go on")
        assert len(leftovers.processes()) >= 5 + 9
        net.kill()
        assert leftovers.wait_until_gone() == []
