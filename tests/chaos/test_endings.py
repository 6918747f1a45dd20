"""The hard ends: a supervisor killed, the command of the local network killed. Nothing of theirs may remain."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from programs import Devnet, is_alive, wait_for

CLEAN_SECONDS = 2.0
STOP_SECONDS = 15.0


def sockets_below(folder: Path) -> list[str]:
    """Unix sockets under a folder, as files or as the kernel knows them."""
    bound = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if f"{folder}/" in line]
    return bound + [str(path) for path in folder.rglob("*") if path.is_socket()]


def test_a_killed_supervisor_leaves_nothing_behind(leftovers: Any) -> None:
    with Devnet(leftovers) as net:
        net.wait(lambda: net.ready("verifier"), "the verifier to be ready")
        node = net.node("verifier")
        folder = Path(node["processes"]).parent
        pids = [entry["pid"] for entry in net.processes("verifier").values()]
        assert len(pids) == 8 and all(map(is_alive, pids)) and sockets_below(folder)
        os.kill(net.processes("verifier")["supervisor"]["pid"], signal.SIGKILL)
        killed = time.monotonic()

        def left() -> list[object]:
            return [*filter(is_alive, pids), *sockets_below(folder), *([folder] if folder.exists() else [])]

        wait_for(lambda: not left(), f"nothing to be left: {left()}", CLEAN_SECONDS)
        assert time.monotonic() - killed < CLEAN_SECONDS + 0.5
        ended = net.end(STOP_SECONDS)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith("error: verifier node ended with exit code -9; its log ")
        assert leftovers.wait_until_gone(0) == []


def test_a_killed_devnet_leaves_nothing_behind(leftovers: Any) -> None:
    with Devnet(leftovers) as net:
        net.wait(lambda: all(map(net.ready, net.nodes)), "both nodes to be ready")
        assert len(leftovers.processes()) >= 5 + 2 * 8
        net.kill()
        assert leftovers.wait_until_gone(STOP_SECONDS) == []
