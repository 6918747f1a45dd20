"""The flags of `rollup-node devnet --chains`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollup_node.stages.protocol.interop_messages import MESSAGE_EXPIRY_WINDOW
from rollup_node.tools.devnet.fork_offsets import SettingsError, fork_offsets
from rollup_node.tools.devnet.l1.server import MAX_REORG
from rollup_node.tools.multichain.messages import EXPIRED, KINDS

MAX_CHAINS, MAX_SUPERNODES = 8, 4
MIN_EXPIRY = 10
"""Seconds in which a valid message is executed, also on a slow machine."""


@dataclass(frozen=True)
class ChainsSettings:
    """A network of `chains` chains that `supernodes` of this project follow, and its end; times in seconds.

    With `interop_after` messages are verified from so long after genesis on. Of the messages each `invalid_every`th is
    invalid, 0 for none, in one of the ways `wrong`, empty for all. They expire after `expiry`, 0 for the default
    window. `op_supernode` is a binary that follows as well. A random process of a supernode is killed each `kill_every`
    seconds, and `reorg_depth` blocks of L1 are replaced each `reorg_every`, 0 for never; L1 finalizes no block that a
    reorg replaces. With `p2p` unsafe blocks reach the supernodes from the sequencers. With `lie_every` the source that
    the first chain's sequencer follows lies for so many seconds, and tells the truth for as many, in turns."""

    chains: int
    supernodes: int
    interop_after: int | None
    invalid_every: int
    blocks: int | None
    duration: float | None
    l1_block_time: int
    l2_block_time: int
    forks: dict[str, int]
    base_port: int
    data_dir: Path | None
    json: bool
    log_level: str
    kill_every: float
    reorg_every: float
    seed: int
    op_supernode: str | None
    expiry: int
    reorg_depth: int
    p2p: bool
    lie_every: float
    wrong: tuple[str, ...]
    da: str
    sequencing_window: int = 200
    altda: str | None = None


def parse(argv: Sequence[str]) -> ChainsSettings:
    """Parse the flags. Raises SettingsError, or SystemExit(0) after --help."""
    args = _parser().parse_args(argv)
    _check(args)
    values = {name: value for name, value in vars(args).items() if name in ChainsSettings.__dataclass_fields__}
    read = {
        "interop_after": args.interop,
        "invalid_every": args.invalid,
        "kill_every": args.kill,
        "reorg_every": args.reorg,
        "lie_every": args.lie,
        "forks": fork_offsets(args.fork),
        "wrong": tuple(args.wrong),
    }
    return ChainsSettings(**values | read)


def _check(args: argparse.Namespace) -> None:
    """Raise SettingsError for what is out of range, or needs another flag."""
    if not 1 <= args.chains <= MAX_CHAINS:
        raise SettingsError(f"--chains {args.chains}: expected 1 to {MAX_CHAINS}")
    if not 1 <= args.supernodes <= MAX_SUPERNODES:
        raise SettingsError(f"--supernodes {args.supernodes}: expected 1 to {MAX_SUPERNODES}")
    for name in ("l1_block_time", "l2_block_time"):
        if not 1 <= getattr(args, name) <= 60:
            raise SettingsError(f"--{name.replace('_', '-')} {getattr(args, name)}: expected 1 to 60 seconds")
    for name in ("invalid", "expiry", "lie"):
        if getattr(args, name) and args.interop is None:
            raise SettingsError(f"--{name}: it needs --interop")
    if args.wrong and not args.invalid:
        raise SettingsError("--wrong: it needs --invalid")
    if EXPIRED in args.wrong and not args.expiry:
        raise SettingsError("--wrong expired: it needs --expiry")
    if args.expiry and not MIN_EXPIRY <= args.expiry <= MESSAGE_EXPIRY_WINDOW:
        raise SettingsError(f"--expiry {args.expiry}: expected {MIN_EXPIRY} to {MESSAGE_EXPIRY_WINDOW} seconds")
    if not 1 <= args.reorg_depth <= MAX_REORG:
        raise SettingsError(f"--reorg-depth {args.reorg_depth}: expected 1 to {MAX_REORG}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollup-node devnet --chains",
        description="Runs several rollups on one L1, which supernodes follow. Ends by comparing the output roots of"
        " all chains and the super roots.",
        allow_abbrev=False,
    )
    number: Any = {"type": int, "metavar": "N"}
    seconds: Any = {"type": float, "metavar": "SECONDS"}
    parser.add_argument("--chains", **number, required=True, help="number of L2 chains, each with a sequencer")
    parser.add_argument("--supernodes", **number, default=1, help="supernodes, each with an engine a chain")
    parser.add_argument(
        "--interop",
        **number,
        nargs="?",
        const=10,
        help="verify messages between all chains from so many seconds after genesis on (10)",
    )
    parser.add_argument("--invalid", **number, default=0, help="each Nth message is invalid; 0 for none")
    ways = ", ".join(KINDS)
    parser.add_argument(
        "--wrong", choices=KINDS, metavar="WAY", action="append", default=[], help=f"what invalid messages are: {ways}"
    )
    parser.add_argument("--blocks", **number, help="stop when the safe heads of all chains reach N")
    parser.add_argument("--duration", **seconds, help="stop after this time")
    parser.add_argument("--l1-block-time", **number, default=4)
    parser.add_argument("--l2-block-time", **number, default=2)
    parser.add_argument("--fork", metavar="NAME=OFFSET", action="append", default=[], help="as without --chains")
    parser.add_argument("--da", choices=("blobs", "calldata"), default="blobs", help="as without --chains")
    parser.add_argument("--base-port", **number, default=0)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--kill", **seconds, default=0.0, help="kill a process of a supernode at random so often")
    parser.add_argument("--reorg", **seconds, default=0.0, help="reorganize L1 so often")
    parser.add_argument("--reorg-depth", **number, default=3, help="blocks of L1 that a reorg replaces (3)")
    parser.add_argument("--expiry", **number, default=0, help="seconds after which a message is expired; 0: 7 days")
    parser.add_argument("--lie", **seconds, default=0.0, help="lie to the first sequencer for so long, in turns")
    parser.add_argument("--p2p", action="store_true", help="gossip between each sequencer and the supernodes")
    parser.add_argument("--seed", **number, default=0, help="of what is done at random")
    parser.add_argument("--op-supernode", metavar="BINARY", help="run this op-supernode beside the others")
    return parser
