"""What the commands that read L1 share."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.l1.config import L1Config
from rollup_node.tools.commands import common
from rollup_node.tools.commands.common import ParsedCommand, address, l2_secret, parse, run
from rollup_node.tools.commands.flags import FlagParser

OPTIONS = ("--network=op-sepolia", "--l1.beacon=http://b", "--workers=3")


@pytest.fixture(autouse=True)
def no_options_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_P2P_NETRESTRICT", raising=False)


def parsed(*words: str, derives: bool = False) -> ParsedCommand:
    parser = FlagParser("test", "A test.")
    parser.add_argument("--json", action="store_true")
    return parse(parser, words, derives=derives)


def test_flags_of_the_command_and_options_of_the_node() -> None:
    command = parsed("--json", *OPTIONS, "--l1=http://a")
    assert command.flags.json and command.values["l1"] == ("http://a",)
    assert command.chain.name == "op-sepolia"


def test_warnings_are_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NETWROK", "x")
    parsed(*OPTIONS)
    assert capsys.readouterr().err.startswith("rollup-node: warning: unknown variable NODE_NETWROK is ignored")


@pytest.mark.parametrize("option", ["l1.checkpoint", "l1.checkpoint.path"])
def test_a_checkpoint_is_not_used_and_that_is_said(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    parsed(*OPTIONS, f"--{option}=0x{'ab' * 32}")
    assert "warning: test does not use --l1.checkpoint: it believes its L1 endpoints" in capsys.readouterr().err


def test_what_derives_warns_of_a_bundle_that_may_be_wrong_once_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """[UPG22]"""
    for age, derives in ((10, False), (-86_400, True)):
        parsed(*OPTIONS, f"--override.lagoon={int(time.time()) - age}", derives=derives)
    assert "lagoon" not in capsys.readouterr().err
    parsed(*OPTIONS, f"--override.lagoon={int(time.time()) - 10}", derives=True)
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "lagoon" in line)
    assert line.startswith("rollup-node: warning: lagoon has activated ") and line.endswith(" (BUNDLE-UNCONFIRMED)")
    assert "is not confirmed by a release: " in line and "--rollup.lagoon-bundle" in line


@pytest.mark.option("log.level")
def test_l1_blobs_and_compute_run_with_the_processes_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Sequence[ProcessSpec], NodeSettings]] = []

    def run_node(specs: Sequence[ProcessSpec], settings: NodeSettings) -> int:
        calls.append((specs, settings))
        return 5

    monkeypatch.setattr(common, "run_node", run_node)
    own = ProcessSpec("derivation", "m:f", None, one_shot=True)
    assert run(parsed(*OPTIONS), [own]) == 5
    run(parsed(*OPTIONS, "--log.level=info"), [own])
    (specs, settings), (_, other) = calls
    assert [(spec.role, spec.copies) for spec in specs] == [("l1", 1), ("blobs", 1), ("compute", 3), ("derivation", 1)]
    assert isinstance(specs[0].config, L1Config) and not specs[0].config.runtime_config
    assert (settings.log.level, settings.log_output) == (Level.WARN, 2)
    assert other.log.level is Level.INFO and settings.precheck is not None


def test_the_secret_for_the_l2_source_is_that_of_the_option(tmp_path: Path) -> None:
    path = tmp_path / "jwt.hex"
    path.write_text("07" * 32)

    def secret(*words: str) -> bytes | None:
        parser = FlagParser("test", "A test.")
        parser.add_l2_source()
        return l2_secret(parse(parser, (*OPTIONS, "--l1=http://a", *words)))

    assert secret("--l2=http://e", f"--l2.jwt-secret={path}") == b"\x07" * 32
    assert secret("--l2=http://e") is None and secret(f"--l2.jwt-secret={path}") is None
    with pytest.raises(SetupError, match=r"there is no secret in .*none"):
        secret("--l2=http://e", f"--l2.jwt-secret={tmp_path / 'none'}")
    assert not (tmp_path / "none").exists()


def test_addresses() -> None:
    assert address("0x" + "ab" * 20) == address("ab" * 20) == b"\xab" * 20
    for text in ("0x12", "zz" * 20, ""):
        with pytest.raises(argparse.ArgumentTypeError, match="is not an address of 20 bytes in hex"):
            address(text)
