"""Dispute games on the L1 of a local network in which op-challenger can move: they keep all claims, and never end.

A game has the methods that op-challenger and op-dispute-mon read. Those whose result is zero have no code: bonds,
credits, resolutions, proposals of preimages. The game stands for its machine, its oracle and its WETH as well."""

from typing import NamedTuple

from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.games import (
    DEPLOYMENT,
    GAME_BODY,
    GAME_METHODS,
    argument,
    assemble,
    dispatch,
    factory_code,
    returned,
    returned_text,
    selector,
)
from tests.support.processes.programs import call
from tests.support.processes.sent_transactions import claim, send_to_l1

ALPHABET_PRESTATE = b"\x03" + keccak256((0x60).to_bytes(32, "big"))[1:]
"""The commitment that the machine of the alphabet starts with."""
CLOCK_SECONDS = 302_400
_FIELDS = ("parent", "countered", "claimant", "bond", "root", "position", "clock")
_SLOT = {name: index for index, name in enumerate(_FIELDS)}


class Claim(NamedTuple):
    """A claim of a game: the index of the one that it moves from, and its position by its generalized index."""

    parent: int
    claimant: str
    root: str
    position: int


def playable_game(start: int, root: bytes, split_depth: int, prestate: bytes = bytes(32)) -> bytes:
    """Return the code of games that begin after the L2 block or time `start` with this root, down to one move behind
    the split depth."""
    stored = [f"4 CALLDATALOAD 8 MUL {index} ADD SLOAD" for index in range(len(_FIELDS))]
    stored[_SLOT["clock"]] = "TIMESTAMP"
    first = ("0xffffffff", "0", argument("creator"), "0", argument("claim"), "1", "TIMESTAMP")
    constants = {
        "maxGameDepth()": split_depth + 2,
        "splitDepth()": split_depth,
        "maxClockDuration()": CLOCK_SECONDS,
        "startingBlockNumber()": start,
        "startingSequenceNumber()": start,
        "startingRootHash()": int.from_bytes(root, "big"),
        "absolutePrestate()": int.from_bytes(prestate, "big"),
    }
    methods = (
        *((name, f"constant{index}") for index, name in enumerate(constants)),
        *((f"{name}()", "self") for name in ("vm", "oracle", "weth")),
        ("version()", "version"),
        ("claimDataLen()", "count"),
        ("claimData(uint256)", "moves"),
        ("attack(bytes32,uint256,bytes32)", "attack"),
        ("defend(bytes32,uint256,bytes32)", "defend"),
        *GAME_METHODS,
    )
    body = (
        *(f":constant{index} {returned(str(value))}" for index, value in enumerate(constants.values())),
        f":self {returned('ADDRESS')}",
        f":version {returned_text('1.4.0')}",
        f":count {returned('0 SLOAD 1 ADD')}",
        f":moves 4 CALLDATALOAD ISZERO @first JUMPI {returned(*stored)}",
        f":first {returned(*first)}",
        # A move is to the left below the claim, or to the left below its neighbour.
        ":defend 2 @move JUMP :attack 0",
        ":move 0 SLOAD 1 ADD DUP1 0 SSTORE 8 MUL",
        f"36 CALLDATALOAD DUP2 {_SLOT['parent']} ADD SSTORE CALLER DUP2 {_SLOT['claimant']} ADD SSTORE",
        f"68 CALLDATALOAD DUP2 {_SLOT['root']} ADD SSTORE",
        # Its position: that of the first claim, 1, is not stored.
        f"SWAP1 36 CALLDATALOAD 8 MUL {_SLOT['position']} ADD SLOAD DUP1 ISZERO OR 2 MUL ADD",
        f"SWAP1 {_SLOT['position']} ADD SSTORE STOP",
    )
    return assemble(" ".join((dispatch(*methods, unknown="256 0 RETURN"), *body, GAME_BODY)))


class PlayableGames:
    """A factory of such games."""

    def __init__(self, l1: str, game: bytes) -> None:
        code = factory_code(game)
        self._l1, self.factory = l1, from_hex(send_to_l1(l1, None, DEPLOYMENT + code)["contractAddress"])

    def create(self, game_type: int, root: bytes, number: int) -> str:
        """Create a game that claims a root of an L2 block or time; its address."""
        claim(self._l1, root, number, game_type, self.factory)
        (count,) = self._view(self.factory, "gameCount()")
        return to_hex(self._view(self.factory, "gameAtIndex(uint256)", count - 1)[2].to_bytes(20, "big"))

    def claims(self, game: str) -> list[Claim]:
        """Return all claims of a game."""
        (count,) = self._view(from_hex(game), "claimDataLen()")
        result = []
        for index in range(count):
            parent, _, claimant, _, root, position, _ = self._view(from_hex(game), "claimData(uint256)", index)
            result.append(Claim(parent, f"0x{claimant:040x}", f"0x{root:064x}", position))
        return result

    def attack(self, game: str, parent: int, root: bytes) -> None:
        """Move against a claim."""
        values = bytes(32) + parent.to_bytes(32, "big") + root
        send_to_l1(self._l1, from_hex(game), selector("attack(bytes32,uint256,bytes32)").to_bytes(4, "big") + values)

    def _view(self, to: bytes, signature: str, *values: int) -> list[int]:
        data = selector(signature).to_bytes(4, "big") + b"".join(value.to_bytes(32, "big") for value in values)
        output = from_hex(call(self._l1, "eth_call", {"to": to_hex(to), "data": to_hex(data)}, "latest"))
        return [int.from_bytes(output[at : at + 32], "big") for at in range(0, len(output), 32)]
