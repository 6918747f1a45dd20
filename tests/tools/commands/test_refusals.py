"""What is wrong with the words of a command ends it in one line that says so, before anything is asked or written.

Refusals that need files or servers are with the tests of their commands."""

import os
import shlex
from pathlib import Path

import pytest

from rollup_node.tools.commands.completion import SHELLS
from tests.support.processes.cli import Cli

NOWHERE = "http://127.0.0.1:1"
SILENT = "--rpc: no node answers at 127.0.0.1:1: cannot connect ("
BEACON = f"--network=op-sepolia --l1.beacon={NOWHERE}"
NODE = f"{BEACON} --l1={NOWHERE}"
L2 = f"--l2={NOWHERE}"
ALT_DA = f"--network=redstone-mainnet --altda.enabled --l1={NOWHERE} --l1.beacon.ignore"
RANGE = f"history range {NODE} --from-l1=5 --to-l1=6 --rows=x --warmup=1"
WITNESS = f"witness {NODE} --out out --from-l2 9"
GAMES = "watch --games=0x4200000000000000000000000000000000000012"
ENDED = f"--parent={os.getpid()}"
LARGEST = (1 << 63) - 1

REFUSED = (
    (f"batches {NODE} --from-l1=9 --to-l1=8", "--to-l1 8 is before --from-l1 9"),
    (f"batches {NODE} --from-l1={LARGEST} --to-l1=8", f"--to-l1 8 is before --from-l1 {LARGEST}"),
    (f"batches {NODE} --from-l1={LARGEST + 1} --to-l1=8", "'9223372036854775808' is not a block number"),
    (f"batches {NODE} --from-l1=-1 --to-l1=8", "argument --from-l1: '-1' is not a block number"),
    (f"batches {NODE} --from-l1=8 --to-l1=9 --batcher=0x12", "'0x12' is not an address of 20 bytes in hex"),
    (f"batches {NODE} --from-l1=8 --to-l1=9 --bacher=0x12", "unknown flag --bacher; did you mean --batcher?"),
    (f"batches {NODE} --from-l1=8 --to-l1=9 --l1.max-concurrency=0", "max concurrent requests cannot be less than 1"),
    (f"batches {ALT_DA} --from-l1=1 --to-l1=2", "no DA server was given"),
    (f"batches --l1={NOWHERE} --from-l1=1 --to-l1=2", "flag network or rollup.config is required"),
    ("checkpoint", "URL is required: the beacon node whose finalized block is taken"),
    ("checkpoint here", 'argument URL: "here" is not an address'),
    (f"checkpoint {NOWHERE}", "cannot connect (Connection refused): give a beacon node that answers"),
    (f"checkpoint {f'{NOWHERE} ' * 18}", "17 beacon nodes to compare with: give at most 16"),
    ("completion", f"shell is required: {', '.join(SHELLS)}"),
    ("completion ksh", "invalid choice: 'ksh'"),
    ("completion bash zsh", "unexpected argument zsh"),
    ("config", "the command is rollup-node config show [--json|--toml]"),
    ("config convert nofile", "cannot read nofile: No such file or directory"),
    ("config convert x --frm=x", "unknown flag --frm; did you mean --from?"),
    ("config convert", "FILE is required"),
    ("decode x", "--as is required: transaction, blob, data, "),
    ("decode --as blob", "FILE is required: bytes, or hex text"),
    ("decode x --as blob --fork-time fjord", "--fork-time 'fjord' is not NAME=T"),
    ("decode x --as blob --fork-time fjrd=5", "unknown fork 'fjrd'; did you mean fjord?"),
    ("decode x --as blob --block-time 0", "--block-time 0: blocks have at least one second"),
    ("decode x --as blob --l1-time soon", "'soon' is not a time in seconds"),
    ("decode x --as blob --chain-id 0x1", "'0x1' is not a chain id"),
    ("decode x --as blob --json --out b.csv --full", "contradict each other"),
    ("decode x --as blob --l1 y", "unknown flag --l1"),
    ("decode nowhere --as blob", "cannot read nowhere: No such file or directory"),
    ("doc", "metrics is required: what to print"),
    ("doc nonsense", "there is no document 'nonsense'; the documents are: metrics"),
    ("doc metrics --format x", "invalid format: x; it is markdown or json"),
    (f"explain {BEACON}", "give --rpc URL of a running node, or --from-l2 N"),
    (f"explain {BEACON} --from-l2 5 {L2}", "give the end: --to-l2 M or --to-l1 L"),
    (f"explain {BEACON} --from-l2 5 --to-l2 5 {L2}", "--to-l2 5 is not after --from-l2 5"),
    (f"explain {BEACON} --from-l2 5 --to-l2 6", "give the L2 source"),
    (f"explain {BEACON} --from-l1 5 --to-l1 4", "--to-l1 4 is before --from-l1 5"),
    (f"explain {BEACON} --from-l2 5 --l2-blocks nowhere", 'argument --l2-blocks: cannot read "nowhere": No such file'),
    (f"explain {BEACON} --from-l2 5 --l2-blocks /", 'argument --l2-blocks: cannot read "/": Is a directory'),
    (f"explain --rpc {NOWHERE} --to-l2 5", "--to-l2 has no meaning with --rpc"),
    (f"explain --rpc {NOWHERE} --network op-sepolia", "unknown flag --network"),
    (f"explain --rpc {NOWHERE}", SILENT),
    ("explain --rpc localhost:9545", 'argument --rpc: "localhost:9545": did you mean http://localhost:9545?'),
    ("explain NOPE", "explain NOPE: no such code; there are BLOB-EXPIRED, "),
    ("explain blob-expird", "explain blob-expird: no such code; did you mean BLOB-EXPIRED"),
    ("explain BLOB-SLOT x", "no more"),
    ("help becon", 'unknown topic "becon"; did you mean beacon?; topics are '),
    ("help l1 l2", "help takes one"),
    ("history verfy", "unknown command history 'verfy'; did you mean verify"),
    (f"{RANGE} --floor=4 {L2} --l2-blocks=/dev/null", "give the L2 source: either --l2 URL or"),
    (f"{RANGE} --floor=4 --l2-blocks=/dev/null", "--l2-blocks needs the block to begin with: --safe-head N"),
    (f"{RANGE} --floor=x", "'x' is not a block number"),
    (RANGE, "--floor"),
    (f"{RANGE} --floor=4 {ENDED}", "which started this one, has ended"),
    ("networks dump-rollup-config", "must specify a network name"),
    ("networks dump-rollup-config --network=op-sepola", "op-sepolia"),
    ("p2p genkeys", "unknown command p2p 'genkeys'; did you mean genkey"),
    ("p2p genkey more", "p2p genkey takes no arguments"),
    ("p2p doctor", "--rpc"),
    (f"p2p doctor --rpc {NOWHERE}", SILENT),
    ("p2p doctor --rcp x", "--rpc"),
    (f"replay {BEACON} --from-l2 5 --to-l2 4 {L2}", "--to-l2 4 is not after --from-l2 5"),
    (f"replay {BEACON} --from-l2 1 --to-l2 4", "give the L2 source"),
    (f"replay {BEACON} --to-l2 4", "--from-l2"),
    *(
        (f"replay {NODE} --from-l2 1 --to-l2 4 {L2} --timeout={text}", "is not a time above 0 such as 30s or 2m")
        for text in ("0s", "-1s", "5", "soon", "")
    ),
    ("replay --witness", "expected one argument"),
    ("replay --witness=none", "there is no witness.json in it"),
    (f"replay --witness none --l1 {NOWHERE}", "unknown flag --l1"),
    ("replay --witness none --out file.txt", "does not end in"),
    (f"status --rpc {NOWHERE}", SILENT),
    ("status --rpc nowhere", "is not an address such as"),
    ("status --wach", "unknown flag --wach; did you mean --watch?"),
    (f"watch --l1={NOWHERE}", "--games is required"),
    ("watch --games 0x12", "is not an address of 20 bytes"),
    (f"{GAMES} --l1 ftp://x", "it takes http or https"),
    (f"{GAMES} --l1 {NOWHERE} --metrics.port 99999", "is not a port"),
    (f"{GAMES} --l1 {NOWHERE} --sign", "unknown flag --sign"),
    (f"{GAMES} --l1 {NOWHERE} --rpc {NOWHERE}", "no node answers at 127.0.0.1:1"),
    (f"{WITNESS} --to-l2 8", "--to-l2 8 is not after --from-l2 9"),
    (f"{WITNESS} --to-l2 10", "give the L2 source"),
    (f"{WITNESS}", "--to-l2 is required"),
    (f"{WITNESS} --to-l2 10 --l2-blocks /dev/null --execution", "--execution needs an engine"),
    (f"{WITNESS} --to-l2 10 {L2} --l1.trustrpc", "--l1.trustrpc proves nothing"),
    (f"{WITNESS} --to-l2 300000 --range-size 1 {L2}", "larger size"),
    (f"{WITNESS} --to-l2 10 {L2} --workers 2 --scheduler x", "--workers is for a cluster on this machine"),
    (f"witness {NODE} --out out --network=op-mainnet --from-l2 5 --to-l2 6 {L2}", "is before the chain's genesis"),
    (f"witness {NODE} --out . --from-l2 9 --to-l2 10 {L2}", "exists: name a new folder"),
    (f"witness range {NODE} --packs x --from-l2 5 --to-l2 6", "give the L2 source"),
    (f"witness range {NODE} --from-l2 5 --to-l2 6", "--packs"),
    (f"witness range {NODE} --packs x --from-l2 5 --to-l2 6 {L2} {ENDED}", "which started this one, has ended"),
)


@pytest.mark.parametrize(("words", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_wrong_is_said_in_one_line(
    words: str, text: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert text in cli.refused(*shlex.split(words))
    assert not list(tmp_path.iterdir())
