"""Runs of a local network of several chains."""

import asyncio
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.devnet.run import LOCK
from rollup_node.tools.multichain import run
from rollup_node.tools.multichain.programs import ChainsPrograms
from rollup_node.tools.multichain.run import LINE_SECONDS, ChainsRun, ChainsView, clear, main, safe_heads
from rollup_node.tools.multichain.settings import parse
from tests.support.processes.chains import Chains
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA
from tests.support.servers.http_listener import json_rpc_app, listening
from tests.tools.inspect.test_status_screen import SUPERNODE


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--chains=0", "--chains 0: expected 1 to 8"),
        ("--chains 9", "--chains 9: expected 1 to 8"),
        ("--chains=2 --supernodes=5", "--supernodes 5: expected 1 to 4"),
        ("--chains=2 --l1-block-time=0", "--l1-block-time 0: expected 1 to 60 seconds"),
        ("--chains=2 --l2-block-time=61", "--l2-block-time 61: expected 1 to 60 seconds"),
        ("--chains=2 --invalid=3", "--invalid: it needs --interop"),
        ("--chains=2 --lie=3", "--lie: it needs --interop"),
        ("--chains=2 --interop --wrong=cycle", "--wrong: it needs --invalid"),
        ("--chains=2 --interop --invalid=2 --wrong=expired", "--wrong expired: it needs --expiry"),
        ("--chains=2 --fork=nope=1", "--fork nope=1: unknown fork 'nope'"),
        ("--nodes=0", "--nodes: must be at least 1, not 0"),
    ],
)
def test_wrong_flags_are_one_line(flags: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags.split()) == 1
    output = capsys.readouterr()
    assert output.err.startswith(f"error: {text}") and output.err.count("\n") == 1 and not output.out


def test_a_run_of_several_chains_is_asked_for_by_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for flags, text in ((["--chains=2", "--help"], "rollup-node devnet --chains"), (["--help"], "--nodes N")):
        with pytest.raises(SystemExit):
            main(flags)
        assert text in capsys.readouterr().out


SETTINGS = parse(["--chains=2", "--interop", "--op-supernode=op-supernode"])


def test_what_an_earlier_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "901").mkdir()
    (tmp_path / "901" / "rollup.json").touch()
    for name in ("l1.log", LOCK):
        (tmp_path / name).touch()
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_an_op_supernode_that_denies_other_blocks_is_told(tmp_path: Path) -> None:
    """Those that are not verified yet may be denied later."""
    denied = ("20:0x2df460c9c4", "31:0x0a0ae00022")
    told = ' lvl=warn process=interop msg=m code=INTEROP-INVALID chain=901 block={} time=T reason="r [EM7]"\n'
    (tmp_path / "supernode.log").write_text("".join(map(told.format, denied)))
    run = ChainsRun(ChainsPrograms(SETTINGS, tmp_path, count(20_000), None), SETTINGS)
    run.result.safe = {"901": 30, "902": 29}
    for number, differs in ((20, False), (21, True)):
        line = f't=T lvl=info msg="added block to deny list" height={number} payloadHash=0x2df460c9c40044d0\n'
        (tmp_path / "op-supernode.log").write_text(line)
        run.result.differences.clear()
        asyncio.run(run.check_messages())
        assert (run.result.invalidated, run.result.rules) == ({"901": 2}, {"EM7": 2})
        assert bool(run.result.differences) is differs
    assert "20:0x2df460c9c4" in run.result.differences[0] and "31:" not in run.result.differences[0]


async def test_heads_that_are_zeros_are_not_told() -> None:
    status = {"901": {"safe_l2": {"number": 5, "hash": "0x01"}}, "902": {"safe_l2": {"number": 0, "hash": "0x00"}}}
    async with listening(json_rpc_app({"supernode_syncStatus": lambda: {"chains": status}})) as (url,):
        client = JsonRpcClient(url)
        assert await safe_heads(client) is None
        status["902"]["safe_l2"]["hash"] = "0x02"
        assert await safe_heads(client) == {"901": 5, "902": 0}
        await client.close()


async def test_it_ends_once_all_supernodes_have_the_last_block(tmp_path: Path) -> None:
    heads, told = chain((1, 2, 2), repeat(3)), []

    def status() -> Any:
        told.append(next(heads))
        return {"chains": {"901": {"safe_l2": {"number": told[-1], "hash": "0x01"}}}}

    settings = parse(["--chains=2", "--supernodes=2", "--blocks=3"])
    async with listening(json_rpc_app({"supernode_syncStatus": status})) as (url,):
        network = SimpleNamespace(supernodes={"a": url, "b": url}, children=SimpleNamespace(check=lambda: None))
        run = ChainsRun(network, settings)  # type: ignore[arg-type]
        await run._follow(())
        for client in run._clients:
            await client.close()
    assert told == [1, 2, 2, 3, 3, 3] and run.result.safe == {"901": 3}


def test_messages_of_a_circle_and_expired_ones(leftovers: Leftovers) -> None:
    """[CY3, EM8, IV3, SNO7, LB7] Their blocks are replaced, and two supernodes have the same roots."""
    ways = ("--invalid", "3", "--wrong", "cycle", "--wrong", "expired", "--expiry", "10")
    with Chains(leftovers, "--chains", "2", "--supernodes", "2", "--interop", "4", *ways, *CALLDATA) as net:
        for rule in ("CY3", "EM8"):
            net.wait(lambda rule=rule: f"[{rule}]" in net.log("supernode"), f"a block is denied by {rule}")  # type: ignore[misc]
        last = max(number for _, number, _ in net.denials())
        for name in net.supernodes:
            net.wait_for_height(max(12, last), name=name)
        result = net.finish()
    assert min(result["rules"][rule] for rule in ("CY3", "EM8")) > 0 and sum(result["invalidated"].values()) > 1
    assert result["super_roots"] > 5 and result["messages"]["valid"] > 0


def test_a_sequencer_to_which_its_source_lies_goes_on(leftovers: Leftovers) -> None:
    """[FSR2, FSR3, FSR6] It builds on its own chain, which becomes safe, whatever it is told.

    No block is replaced here: of that it hears late from such a source, and of the last one not before the end."""
    with Chains(leftovers, "--chains", "2", "--interop", "4", "--lie", "1.5") as net:
        net.wait_for_height(1)
        net.wait(lambda: "FOLLOW-" in (net.root / "901" / "sequencer.log").read_text(), "it refuses what it is told")
        net.wait_for_height(net.height(901) + 10)
        assert net.finish()["lies"] > 0


LINE = "   12 s  safe {901: 7, 902: 7, 903: 8}  messages {}"


def test_all_processes_of_three_chains_have_room_on_a_small_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, force_terminal=True, width=80, height=24)
    monkeypatch.setattr(run, "Console", lambda **options: console)
    shown = ChainsView(False)
    shown.message("status pages  supernode http://127.0.0.1:1")
    shown.show(LINE, None)
    shown.show(LINE, SUPERNODE)
    shown.close()
    screen = console.export_text().rpartition(LINE)[2]
    assert shown.wants_status and screen.count("\n") < 24 and max(map(len, screen.split("\n"))) <= 80
    for role in ("supervisor", "l1", "blobs", "compute x2", "derivationx3", "engine x3", "p2p x3", "rpc"):
        assert screen.count(f"{role} ") == 1, screen
    assert all(chain in screen for chain in SUPERNODE.chains)


@pytest.mark.parametrize("is_silent", [False, True])
def test_elsewhere_it_shows_lines_or_nothing(capsys: pytest.CaptureFixture[str], is_silent: bool) -> None:
    shown = ChainsView(is_silent)
    shown.message("[901] is no markup, and not cut" + 100 * ".")
    shown.show(LINE, SUPERNODE)
    shown.close()
    lines = [] if is_silent else ["[901] is no markup, and not cut" + 100 * ".", LINE]
    assert capsys.readouterr().out.splitlines() == lines
    assert not shown.wants_status and shown.seconds == LINE_SECONDS
