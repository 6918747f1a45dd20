"""`rollup-node devnet` as a program: other channel configurations, its output, its ends, and anvil as L1."""

import contextlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rollup_node.tools.devnet.ports import PortInUse, reserved
from tests.support.processes.cli import Cli
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, call

ROOT = Path(__file__).parents[3]
END_SECONDS = 50.0


def start(watch: Leftovers, *words: str) -> Program:
    return Program(watch, "rollup_node", "devnet", *words)


def listed_batches(watch: Leftovers, net: Devnet, last: int, *words: str) -> list[dict[str, Any]]:
    """Return the batches that `rollup-node batches` lists on the L1 of a network."""
    files = f"--rollup.config={net.root}/rollup.json", f"--rollup.l1-chain-config={net.root}/l1-chain-config.json"
    flags = (f"--l1={net.network['l1']}", *files, "--from-l1=1", f"--to-l1={last}", "--json", *words)
    with Program(watch, "rollup_node", "batches", *flags) as command:
        return [json.loads(line) for line in command.wait_for_exit(END_SECONDS).lines()]


@contextmanager
def free_ports() -> Iterator[int]:
    """Yield the first of 19 free consecutive ports below the ephemeral range, which stay reserved while the context
    lasts."""
    for base in range(20_000 + os.getpid() % 660 * 19, 32_700, 19):
        with contextlib.suppress(PortInUse), reserved(base, Devnet.nodes):
            yield base
            return
    raise AssertionError("no 19 free consecutive ports")


class TerminalNet(Devnet):
    """A network that starts as a user's does: its command has a terminal as standard output, and `shown` is what it
    has written there so far."""

    is_forked = False

    def __init__(self, leftovers: Leftovers, *words: str) -> None:
        ours, theirs = os.openpty()
        self.shown = bytearray()
        self.options = {"stdout": theirs}
        super().__init__(leftovers, *words, json=False, TERM="xterm", COLUMNS="100", LINES="60")
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, args=(ours,))
        self._reader.start()

    def _read(self, terminal: int) -> None:
        # The end of the program closes its side, which is an error here.
        with contextlib.suppress(OSError):
            while part := os.read(terminal, 1 << 16):
                self.shown += part
        os.close(terminal)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._reader.join()


def test_singular_batches_in_calldata_with_zlib_and_a_remote_signer_in_the_live_view(leftovers: Leftovers) -> None:
    flags = ("--batch", "singular", "--compression", "zlib", "--signer", *CALLDATA)
    with free_ports() as base, TerminalNet(leftovers, *flags, "--base-port", str(base), "--blocks", "1000") as net:
        net.wait_for_first_safe()
        assert net.network["l1"] == f"http://127.0.0.1:{base}"
        nodes = net.network["nodes"].values()
        ports = {urlsplit(url).port for node in nodes for url in node.values() if "http" in url}
        ports |= {int(node["p2p"].split("/")[4]) for node in nodes}
        assert ports == {*range(base + 2, base + 12), base + 15, base + 16}
        assert f"endpoint=127.0.0.1:{base + 12}" in net.log("sequencer"), "the signer has the next port"
        net.wait(lambda: net.sync_status("verifier")["unsafe_l2"]["number"] > net.safe_number(), "gossiped blocks")
        origin = net.sync_status("verifier")["current_l1"]["number"]
        result = listed_batches(leftovers, net, origin, "--l1.beacon.ignore")
        assert {batch["kind"] for batch in result} == {"singular"}
        inbox = json.loads((net.root / "rollup.json").read_text())["batch_inbox_address"]
        block = call(net.network["l1"], "eth_getBlockByNumber", hex(result[0]["inclusion"]), True)
        sent = [entry["input"] for entry in block["transactions"] if entry["to"] == inbox]
        assert sent and all(data[:4] == "0x00" and data[48:50] == "78" for data in sent), "frames of zlib channels"
        ended = net.stop()
    assert (ended.code, ended.err) == (0, "")
    text = net.shown.decode()
    for word in ("L1 head ", "unsafe", "finalized", "sequencer", "verifier", "channels posted", "supervisor", "MiB"):
        assert word in text, word
    assert " of 1000 blocks safe on all nodes" in text and "\x1b[" in text
    assert " blocks, output roots equal on all nodes; safe " in text.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_the_start(leftovers: Leftovers, number: signal.Signals) -> None:
    with start(leftovers, "--blocks", "5") as program:
        program.wait_for_line("starting the network")
        program.process.send_signal(number)
        ended = program.wait_for_exit()
    assert (ended.code, ended.err) == (130, "interrupted before the output roots were compared\n")


def test_an_invalid_argument_is_one_line_on_stderr(cli: Cli) -> None:
    words, error = ("--anvil", "no-such-anvil", "--da", "calldata"), "error: --anvil no-such-anvil: no such program"
    assert cli.refused("devnet", "--json", *words) == error


def find_anvil() -> str | None:
    """Return the path of anvil: from $ANVIL, PATH, or npm packages in the checkout."""
    packages = [ROOT / "node_modules", ROOT / "tests" / "interop" / "js" / "node_modules"]
    files = [os.environ.get("ANVIL"), "anvil", *(str(folder / ".bin" / "anvil") for folder in packages)]
    return next((result for place in files if place and (result := shutil.which(place))), None)


def test_anvil_as_l1(leftovers: Leftovers) -> None:
    anvil = find_anvil()
    if anvil is None:
        pytest.skip("no anvil: install it, name it by $ANVIL, or npm install @foundry-rs/anvil")
    with Devnet(leftovers, "--anvil", anvil, *CALLDATA) as net:
        net.wait_for_first_safe()
        assert call(net.network["l1"], "web3_clientVersion").startswith("anvil/")
        net.kill_process("verifier", "l1")
        net.wait_for_safe(net.safe_number() + 3)
        origin = net.sync_status("verifier")["current_l1"]["number"]
        result = listed_batches(leftovers, net, origin, "--l1.beacon.ignore", "--l1.trustrpc")
        assert {batch["kind"] for batch in result} == {"span"}
        net.finish()
