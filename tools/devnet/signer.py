"""A block signer for the local network: op-signer's JSON-RPC over HTTP with one key, without TLS [SGN1, SGN4]."""

import argparse
import asyncio
import base64
import sys
from binascii import Error as BinasciiError
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from eth_keys.datatypes import PrivateKey

from rollup_node.stages.p2p.blocks.signing import signing_hash
from rollup_node.stages.protocol.errors import INVALID_PARAMS, SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keys import private_key
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, Method, application

VERSION = "rollup-node-development-signer"


class SigningRequest(msgspec.Struct, frozen=True):
    """The parameter of `opsigner_signBlockPayload`: 32 numbers, and a hash in base64."""

    domain: tuple[int, ...]
    chainId: int
    payloadHash: str
    senderAddress: str


class SignerMethods:
    """The methods of a signer with this key, for blocks of the default domain."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self._address = to_hex(key.public_key.to_canonical_address())

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        return {"health_status": lambda: VERSION, "opsigner_signBlockPayload": self.sign}

    def sign(self, request: Any) -> str:
        """opsigner_signBlockPayload. Raises JsonRpcError for another key, another domain and malformed values."""
        try:
            value = msgspec.convert(request, SigningRequest)
            payload_hash = base64.b64decode(value.payloadHash, validate=True)
        except (msgspec.ValidationError, BinasciiError) as error:
            raise JsonRpcError(INVALID_PARAMS, f"malformed signing request: {error}") from None
        if value.domain != (0,) * 32 or len(payload_hash) != 32:
            raise JsonRpcError(INVALID_PARAMS, "the domain must be 32 zeros, and the payload hash have 32 bytes")
        if value.senderAddress.lower() != self._address:
            raise JsonRpcError(SERVER_ERROR, f"there is no key of {value.senderAddress}")
        signature = self._key.sign_msg_hash(signing_hash(value.chainId, payload_hash))
        return to_hex(signature.to_bytes())


async def serve(key: PrivateKey, port: int) -> None:
    """Serve until it is cancelled; prints URL and address once it listens."""
    async with Listener(application(JsonRpc(SignerMethods(key).methods())), port) as listener:
        print(f"signer {listener.url} address {to_hex(key.public_key.to_canonical_address())}", flush=True)
        await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal stops it."""
    parser = argparse.ArgumentParser(prog="signer", description="Block signer for development.", allow_abbrev=False)
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    try:
        asyncio.run(serve(private_key(bytes.fromhex(args.key_file.read_text().strip())), args.port))
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
