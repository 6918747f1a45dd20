"""`rollup-node p2p`: keys and peer ids of the network [CMD1 to CMD3], and the doctor."""

import sys
from collections.abc import Callable, Sequence

from rollup_node.node.options.errors import did_you_mean
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.stages.p2p.addresses.peer_id import IdentityError, NetworkIdentity, peer_id_text, secp256k1_public_key
from rollup_node.stages.p2p.storage.io.key_file import generate_secret

_LONGEST_INPUT = 4096
DOCTOR = "doctor"

_HELP = f"""usage: {PROGRAM} p2p genkey | priv2id | pub2id | doctor --rpc URL [--json]

  genkey   prints a new private key as hex, for the file of p2p.priv.path
  priv2id  reads a private key as hex from standard input, prints its peer id
  pub2id   reads a secp256k1 public key as hex from standard input, prints its peer id
  doctor   reports why a running node has few peers or gets no blocks, and what to do; exit code 1 for faults
"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands. Raises SetupError for an unknown command or bad input."""
    name, *rest = arguments or ["--help"]
    if name == DOCTOR:
        from rollup_node.tools.commands.doctor import main as doctor

        return doctor(rest)
    if not {"-h", "--help"}.isdisjoint(arguments or [name]):
        print(_HELP, end="")
        return 0
    if name not in KEY_COMMANDS:
        names = (*KEY_COMMANDS, DOCTOR)
        shown = ", ".join(names)
        raise SetupError(f"unknown command p2p {name[:80]!r}{did_you_mean(name, names)}; commands are {shown}")
    if rest:
        raise SetupError(f"p2p {name} takes no arguments; keys are read from standard input")
    print(KEY_COMMANDS[name]())
    return 0


def _genkey() -> str:
    return generate_secret().hex()


def _priv2id() -> str:
    try:
        return peer_id_text(NetworkIdentity(_hex_input("a private key")).peer_id)
    except IdentityError as error:
        raise SetupError(f"p2p priv2id: {error}") from None


def _pub2id() -> str:
    try:
        return peer_id_text(secp256k1_public_key(_hex_input("a public key")).peer_id)
    except IdentityError as error:
        raise SetupError(f"p2p pub2id: {error}") from None


def _hex_input(what: str) -> bytes:
    try:
        raw = bytes.fromhex(sys.stdin.read(_LONGEST_INPUT).strip().removeprefix("0x"))
    except ValueError:
        raw = b""
    if not raw:
        raise SetupError(f"standard input must be {what} in hex, such as `{PROGRAM} p2p genkey` prints")
    return raw


KEY_COMMANDS: dict[str, Callable[[], str]] = {"genkey": _genkey, "priv2id": _priv2id, "pub2id": _pub2id}
