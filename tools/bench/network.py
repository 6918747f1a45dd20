"""Measures the local network.

How long a node takes to become ready and the verifier to its first safe block, and the memory and CPU of a node at the
tip."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollup_node.tools.bench.measure import Figure, repeat, show
from rollup_node.tools.devnet.settings import VERIFIER
from rollup_node.tools.devnet.status import read_processes

READY_SECONDS, FIRST_SAFE_SECONDS = 3.0, 25.0
MEMORY_MIB, CPU_PERCENT = 350.0, 5.0
WAIT_SECONDS = 120.0
READY_LINE = re.compile(r'processes are ready" seconds=([0-9.]+)')
SAMPLE_SECONDS = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of the start and the first safe block")
    parser.add_argument(
        "--settle", type=float, default=300.0, help="seconds at the tip before memory and CPU are measured"
    )
    parser.add_argument("--skip-idle", action="store_true")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    ready: list[float] = []
    first = repeat(args.runs, 1, lambda: _first_safe(ready))
    figures = [
        Figure("node ready after its endpoints answer", "s", tuple(ready[-args.runs :]), READY_SECONDS),
        Figure("first safe block of the verifier", "s", first, FIRST_SAFE_SECONDS),
    ]
    if not args.skip_idle:
        memory, cpu = _idle(args.settle)
        figures += [
            Figure(f"memory of one node after {args.settle:g} s (PSS)", "MiB", (memory,), MEMORY_MIB),
            Figure("CPU of one node at the tip", "%", (cpu,), CPU_PERCENT),
        ]
    return show("local network", figures)


def _first_safe(ready: list[float]) -> float:
    """Seconds from the command to the verifier's first safe block; appends a second node's start time to `ready`."""
    with tempfile.TemporaryDirectory(prefix="rn-bench-") as folder:
        started = time.monotonic()
        with _RunningDevnet(Path(folder)) as network:
            network.wait_for_safe_block()
            seconds = time.monotonic() - started
            ready.append(network.second_node_seconds())
    return seconds


def _idle(settle: float) -> tuple[float, float]:
    """PSS in MiB and CPU in percent of a core, of all processes of the verifier, at the tip."""
    with tempfile.TemporaryDirectory(prefix="rn-bench-") as folder, _RunningDevnet(Path(folder)) as network:
        network.wait_for_safe_block()
        time.sleep(settle)
        before = cpu_seconds(network.verifier_pids())
        began = time.monotonic()
        time.sleep(SAMPLE_SECONDS)
        used = cpu_seconds(network.verifier_pids()) - before
        memory = sum(read_process.memory for read_process in read_processes(network.processes_file))
        return memory, 100 * used / (time.monotonic() - began)


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system CPU seconds that running processes have used so far."""
    total = 0
    for pid in pids:
        # The command name before the last bracket may contain spaces; utime and stime follow as 12th and 13th field.
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class _RunningDevnet:
    """A local network that runs as a child process with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes_file = folder / VERIFIER / "processes.json"

    def __enter__(self) -> "_RunningDevnet":
        command = [sys.executable, "-m", "rollup_node", "devnet", "--data-dir", str(self._folder), "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=WAIT_SECONDS)

    @property
    def description(self) -> Any:
        return json.loads((self._folder / "network.json").read_text())

    def verifier_pids(self) -> list[int]:
        return [read_process.pid for read_process in read_processes(self.processes_file)]

    def wait_for_safe_block(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                status = _call(self.description["nodes"][VERIFIER]["rpc"], "optimism_syncStatus")
                if status["safe_l2"]["number"] > 0:
                    return
            except (OSError, ValueError, KeyError):
                pass
            time.sleep(0.05)
        raise TimeoutError("no safe block")

    def second_node_seconds(self) -> float:
        """Return the seconds until another node is ready on the running L1 and engine.

        It has ports and a runtime directory of its own."""
        about = self.description
        options = {
            "l1": about["l1"],
            "l1.beacon": about["beacon"],
            "l2": about["nodes"][VERIFIER]["engine_auth"],
            "l2.jwt-secret": about["jwt"],
            "rollup.config": about["rollup"],
            "rollup.l1-chain-config": str(self._folder / "l1-chain-config.json"),
            "rpc.addr": "127.0.0.1",
            "rpc.port": "0",
            "p2p.disable": "true",
            "runtime.dir": str(self._folder / "second"),
            "workers": "1",
        }
        command = [sys.executable, "-m", "rollup_node", *(f"--{name}={value}" for name, value in options.items())]
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as node:
            assert node.stdout is not None
            try:
                for line in node.stdout:
                    if READY_LINE.search(line):
                        return time.monotonic() - began
            finally:
                node.terminate()
                node.communicate(timeout=WAIT_SECONDS)
        raise RuntimeError("the second node did not become ready")


def _call(url: str, method: str) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)["result"]
    except urllib.error.URLError as error:
        raise OSError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
