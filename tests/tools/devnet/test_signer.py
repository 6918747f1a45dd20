"""The signer program of the local network, with the node's client of remote signers."""

import base64
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keys import private_key
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.files import SIGNER_KEY
from rollup_node.tools.devnet.signer import SignerMethods, main

KEY = LocalSigner(SIGNER_KEY.secret)
METHODS = SignerMethods(private_key(SIGNER_KEY.secret))
HASH = b"\x07" * 32


def request(**changes: Any) -> dict[str, Any]:
    wanted = {"domain": [0] * 32, "chainId": 901, "payloadHash": base64.b64encode(HASH).decode()}
    return {**wanted, "senderAddress": to_hex(KEY.address), **changes}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"senderAddress": "0x" + "11" * 20}, "there is no key of 0x1111"),
        ({"domain": [1] * 32}, "the domain must be 32 zeros"),
        ({"payloadHash": "AAAA"}, "have 32 bytes"),
        ({"payloadHash": "?"}, "malformed signing request"),
        ({"chainId": "901"}, "malformed signing request"),
    ],
)
def test_other_requests_are_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(JsonRpcError, match=error):
        METHODS.sign(request(**changes))


def test_an_unusable_key_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "key.txt"
    for text in ("xyz", "00"):
        path.write_text(text)
        assert main(["--key-file", str(path)]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
