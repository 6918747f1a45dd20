"""`python -m rollup_node.tools.devnet.engine`: an embedded development engine."""

import argparse
import asyncio
import sys
from pathlib import Path

from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized
from rollup_node.tools.devnet.engine.execution import InvalidBlock
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.engine.server import EngineServer, serve
from rollup_node.tools.devnet.evm.genesis import GenesisError


class EngineStartError(Exception):
    """The engine cannot start; the text says what is wrong where."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the engine until it is told to stop; 1 with one line on stderr where it cannot start."""
    parser = argparse.ArgumentParser(
        prog="engine", description="Embedded development execution engine.", allow_abbrev=False
    )
    parser.add_argument("--genesis", type=Path, required=True, help="genesis file, as geth reads it")
    parser.add_argument("--http", type=int, default=9545, help="port of the public methods (0: any free one)")
    parser.add_argument("--auth", type=int, default=9551, help="port of the Engine API (0: any free one)")
    parser.add_argument("--jwt", type=Path, required=True, help="file with the 32-byte secret in hex")
    parser.add_argument("--data-dir", type=Path, help="directory to keep the chain in; without it, it is forgotten")
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
    try:
        return EngineServer(genesis, secret, http_port=options.http, auth_port=options.auth, data_dir=options.data_dir)
    except (InvalidBlock, ValueError) as error:
        raise EngineStartError(
            f"--data-dir {options.data_dir}: the chain in it does not belong to this genesis or is damaged ({error});"
            " remove it to start anew"
        ) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EngineStartError(f"{path}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
