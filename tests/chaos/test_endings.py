"""A killed supervisor and a killed devnet command leave no process, socket or file behind."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, is_alive, wait_for


def sockets_below(folder: Path) -> list[str]:
    """Return the Unix sockets below a folder, bound ones and files."""
    bound = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if f"{folder}/" in line]
    return bound + [str(path) for path in folder.rglob("*") if path.is_socket()]


@pytest.mark.fault("F56")
def test_killed_programs_leave_nothing_behind(leftovers: Leftovers) -> None:
    """The supervisor first. The command is stopped meanwhile, since it would end the network after its node."""
    with Devnet(leftovers, *CALLDATA) as net:
        net.wait(lambda: all(map(net.is_ready, net.nodes)), "both nodes to be ready")
        folder = Path(net.node("verifier")["processes"]).parent
        net.wait(lambda: len(net.processes("verifier")) == 9, "all processes of the verifier")
        pids = [entry["pid"] for entry in net.processes("verifier").values()]
        assert all(map(is_alive, pids)) and sockets_below(folder)
        net.process.send_signal(signal.SIGSTOP)
        os.kill(net.process_entry("verifier", "supervisor")["pid"], signal.SIGKILL)

        def left() -> list[object]:
            return [*filter(is_alive, pids), *sockets_below(folder), *([folder] if folder.exists() else [])]

        wait_for(lambda: not left(), "clean-up after the supervisor")
        net.wait(lambda: net.is_ready("sequencer"), "ready sequencer")
        assert len(leftovers.processes()) >= 5 + 9
        net.kill()
        assert leftovers.wait_until_gone() == []
