"""The remote signer: op-signer's JSON-RPC, whose every signature is checked [SGN1, SGN3, SGN7]."""

import base64
from typing import Any

import orjson

from rollup_node.stages.io.http.endpoint_errors import endpoint_name
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.p2p.blocks.signing import DOMAIN, SigningError, signing_hash
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.p2p.signer.io.tls_files import TlsFileError, TlsFiles
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, to_hex
from rollup_node.stages.protocol.secp256k1 import SIGNATURE_SIZE, recover_address
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import Address, Hash

HEALTH_TIMEOUT = 3.0
SIGN_TIMEOUT = 5.0
MAX_ANSWER_BYTES = 64 << 10


class RemoteSigner:
    """Signs blocks by calls to `signer.endpoint`, one at a time over one connection, made at the first call."""

    option = "signer.address"

    def __init__(self, config: SignerConfig) -> None:
        self.address: Address = config.address
        self.name = endpoint_name(config.endpoint)
        headers = dict(config.headers)
        self._client = JsonRpcClient(
            config.endpoint,
            timeout=SIGN_TIMEOUT,
            headers=lambda: headers,
            max_concurrency=1,
            max_body=MAX_ANSWER_BYTES,
            tls=TlsFiles(config).context if config.tls_enabled else None,
        )

    async def version(self) -> str:
        """Return what `health_status` answers. Raises SigningError without an answer within 3 s [SGN1]."""
        answer = await self._call("health_status", timeout=HEALTH_TIMEOUT)
        if not isinstance(answer, str):
            raise SigningError(f"{self.name} does not answer health_status like a signer")
        return one_line(answer)

    async def sign_block(self, chain_id: int, hash_of_payload: Hash) -> bytes:
        """Return the signature if it is one of `address` [SGN3, SGN7]. Raises SigningError, after 5 s at most."""
        argument = {
            "domain": list(DOMAIN),
            # A plain number of up to 256 bits, which orjson does not write by itself.
            "chainId": orjson.Fragment(str(chain_id)),
            "payloadHash": base64.b64encode(hash_of_payload).decode(),
            "senderAddress": to_hex(self.address),
        }
        answer = await self._call("opsigner_signBlockPayload", argument, timeout=SIGN_TIMEOUT)
        try:
            signature = from_hex(answer)
        except HexError as error:
            raise SigningError(f"{self.name}: the signature is malformed, {error}") from None
        if len(signature) != SIGNATURE_SIZE:
            raise SigningError(f"{self.name}: the signature has {len(signature)} bytes, not {SIGNATURE_SIZE}")
        result = recover_address(signing_hash(chain_id, hash_of_payload), signature)
        if result is None:
            raise SigningError(f"{self.name}: the signature is invalid")
        if result != self.address:
            expected = to_hex(self.address)
            raise SigningError(
                f"{self.name}: the signature is one of {to_hex(result)}, not of signer.address {expected}"
            )
        return signature

    async def close(self) -> None:
        """Close the connection; another call opens a new one."""
        await self._client.close()

    async def _call(self, method: str, *params: Any, timeout: float) -> Any:
        try:
            return await self._client.call(method, *params, timeout=timeout)
        except EndpointError as error:
            raise SigningError(str(error)) from None
        except RpcFailure as error:
            raise SigningError(f"{self.name}: {method}: {error}") from None
        except TlsFileError as error:
            raise SigningError(str(error)) from None
