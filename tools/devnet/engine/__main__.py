"""`python -m rollup_node.tools.devnet.engine`: the embedded execution engine as a program."""

import argparse
import asyncio
import sys
from pathlib import Path

from rollup_node.node.options.value_types import HTTP_URL
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized
from rollup_node.tools.devnet.engine.engine_api import Trait
from rollup_node.tools.devnet.engine.execution import InvalidBlock
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.engine.server import EngineServer, serve
from rollup_node.tools.devnet.evm.state import GenesisError

LIKE_HELP = "answer as op-reth does in one respect, and otherwise as op-geth; may be repeated"


class EngineStartError(Exception):
    """The engine cannot start; the text is one line for the user."""


def main(arguments: list[str] | None = None) -> int:
    """Run the engine until a signal stops it; 1 with one line on stderr where it cannot start."""
    parser = argparse.ArgumentParser(
        prog="engine", description="Embedded execution engine for development.", allow_abbrev=False
    )
    parser.add_argument("--genesis", type=Path, required=True, help="genesis file in geth's format")
    parser.add_argument("--http", type=int, default=9545, help="port of the public methods (0: a free one)")
    parser.add_argument("--auth", type=int, default=9551, help="port of the Engine API (0: a free one)")
    parser.add_argument("--ipc", type=Path, metavar="PATH", help="socket that serves the same without a JWT")
    parser.add_argument("--jwt", type=Path, required=True, help="file with the 32-byte secret in hex")
    parser.add_argument(
        "--data-dir", type=Path, help="directory that keeps the chain; without it the chain is lost at the end"
    )
    parser.add_argument("--el-sync-from", metavar="URL", help="engine from which a chain that is missing is fetched")
    parser.add_argument("--like", action="append", choices=[*Trait], default=[], help=LIKE_HELP)
    options = parser.parse_args(arguments)
    try:
        asyncio.run(serve(_server(options)))
    except EngineStartError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"engine: cannot listen: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def _server(options: argparse.Namespace) -> EngineServer:
    try:
        genesis = parse_genesis(_read(options.genesis))
    except GenesisError as error:
        raise EngineStartError(f"--genesis {options.genesis}: {error}") from None
    try:
        text = _read(options.jwt).decode().strip()
        secret = from_hex_sized(text if text.startswith("0x") else "0x" + text, 32)
    except (HexError, UnicodeDecodeError):
        raise EngineStartError(f"--jwt {options.jwt}: expected 32 bytes in hex") from None
    if options.el_sync_from is not None:
        try:
            HTTP_URL.read(options.el_sync_from)
        except ValueError:
            raise EngineStartError(f"--el-sync-from {options.el_sync_from}: must be {HTTP_URL.expected}") from None
    try:
        return EngineServer(
            genesis,
            secret,
            http_port=options.http,
            auth_port=options.auth,
            ipc=options.ipc,
            data_dir=options.data_dir,
            el_sync_from=options.el_sync_from,
            traits=frozenset(map(Trait, options.like)),
        )
    except (InvalidBlock, ValueError) as error:
        raise EngineStartError(
            f"--data-dir {options.data_dir}: its chain is damaged or has another genesis ({error});"
            " remove it to start from genesis"
        ) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EngineStartError(f"{path}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
