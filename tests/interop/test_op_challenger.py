"""op-challenger beside our node: it reads our outputs and super roots, leaves a right claim alone and moves against
a wrong one, with roots that are ours. Nothing here needs a machine's run: games end before their last moves.

The games are on the L1 of a local network; they keep all claims, and never end. A game has the methods that
op-challenger and op-dispute-mon read. Those whose result is zero have no code: bonds, credits, resolutions, proposals
of preimages. The game stands for its machine, its oracle and its WETH as well.

An op-challenger whose source of super roots is an op-supervisor is skipped."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.files import TRANSFER_KEY
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
from tests.support.foreign.op_programs import ForeignProgram, find_program, first_option, words
from tests.support.processes.chains import CHAINS, Chains
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call, http_get
from tests.support.processes.sent_transactions import claim, send_to_l1
from tests.support.servers.loopback import free_port, own_address

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


ALPHABET, SUPER_PERMISSIONED = 255, 5
BLOCKS = 8
DEPTH = BLOCKS.bit_length() - 1
STEPS_DEPTH = 7
"""A game of super roots has 128 steps a second."""
WRONG = b"\x07" * 32
METRIC = re.compile(
    r'^op_dispute_mon_(?:games_agreement\{.*status="(?=\w+_ahead))?(\w+)(?:".*\})? ([\d.e+]+)$', re.MULTILINE
)


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    find_program("op-challenger")
    with Devnet(module_leftovers, *CALLDATA) as running:
        running.wait_for_safe(BLOCKS)
        yield running
        running.finish()


class Challenger(ForeignProgram):
    """op-challenger that plays the games of one factory."""

    def __init__(self, watch: Leftovers, net: Devnet, games: PlayableGames, kind: str, **options: object) -> None:
        about = net.network
        self._net, self._games, data = net, games, watch.folder / kind
        data.mkdir(exist_ok=True)
        shared = {
            "l1-eth-rpc": about["l1"],
            "l1-beacon": about["beacon"],
            "game-factory-address": to_hex(games.factory),
            "game-types": kind,
            "datadir": data,
            "http-poll-interval": "500ms",
            "num-confirmations": "1",
            "private-key": TRANSFER_KEY.secret.hex(),
        }
        super().__init__(watch, find_program("op-challenger"), *words(shared | options))

    def wait_for_claims(self, game: str, count: int) -> list[Claim]:
        """Wait until a game has so many claims. Those with an odd index are its own."""

        def enough() -> list[Claim]:
            assert self.running, self.out[-3000:] + self.err[-3000:]
            if "supervisor_syncStatus" in self.out:
                pytest.skip("this op-challenger asks its source of super roots as an op-supervisor")
            claims = self._games.claims(game)
            return claims if len(claims) >= count else []

        try:
            result = self._net.wait(enough, f"{count} claims of {game}")
        except AssertionError as error:
            raise AssertionError(f"{error} {self.out[-4000:]}") from None
        assert {claim.claimant for claim in result[1::2]} <= {to_hex(TRANSFER_KEY.address)}
        return result

    def finish(self, right: str) -> None:
        """Stop it: it has looked at the game with the right claim, made no move in it, and met no error."""
        self._net.wait(lambda: f'msg="game info" game={right}' in self.out.lower(), "it saw the right claim")
        assert len(self._games.claims(right)) == 1
        assert "lvl=error" not in self.out, self.out[-4000:]
        self.stop()


def output_roots(url: str) -> list[bytes]:
    """Return our output roots of the first blocks."""
    return [from_hex(call(url, "optimism_outputAtBlock", hex(number))["outputRoot"]) for number in range(BLOCKS + 1)]


def test_it_disputes_outputs_with_ours(net: Devnet, module_leftovers: Leftovers) -> None:
    """With a move to the left of each wrong claim, and one to the right of a right one."""
    ours = net.node("verifier")["rpc"]
    roots = output_roots(ours)
    games = PlayableGames(net.network["l1"], playable_game(0, roots[0], DEPTH, ALPHABET_PRESTATE))
    right, wrong = (games.create(ALPHABET, root, BLOCKS) for root in (roots[BLOCKS], WRONG))
    options = {"rollup-rpc": ours, "l2-eth-rpc": net.node("verifier")["engine"]}
    with Challenger(module_leftovers, net, games, "alphabet", **options) as challenger:
        claims = challenger.wait_for_claims(wrong, 2)
        assert (claims[1].parent, claims[1].position, claims[1].root) == (0, 2, to_hex(roots[4]))
        games.attack(wrong, 1, WRONG)
        claims = challenger.wait_for_claims(wrong, 4)
        assert (claims[3].parent, claims[3].position, claims[3].root) == (2, 8, to_hex(roots[1]))
        games.attack(wrong, 1, roots[2])
        claims = challenger.wait_for_claims(wrong, 6)
        assert (claims[5].parent, claims[5].position, claims[5].root) == (4, 10, to_hex(roots[3]))
        challenger.finish(right)


def super_root(url: str, timestamp: int) -> dict[str, Any]:
    """Return our answer about the super root of a second."""
    answer: dict[str, Any] = call(url, "superroot_atTimestamp", hex(timestamp))
    return answer


def super_roots(url: str, genesis: int) -> list[bytes]:
    """Return our super roots of the first seconds."""
    return [from_hex(super_root(url, genesis + second)["data"]["super_root"]) for second in range(BLOCKS + 1)]


def transition(url: str, timestamp: int, step: int) -> bytes:
    """Return the root of a state between two super roots: the first one, and all chains' outputs of the next."""
    before, after = (super_root(url, second) for second in (timestamp, timestamp + 1))
    start = b"\x01" + timestamp.to_bytes(8, "big")
    blocks: list[rlp.Item] = []
    for item in before["data"]["super"]["chains"]:
        start += int(item["ChainID"]).to_bytes(32, "big") + from_hex(item["Output"])
        block = after["optimistic_at_timestamp"][item["ChainID"]]
        blocks.append([from_hex(block["output"]["blockHash"]), from_hex(block["output_root"])])
    assert to_hex(keccak256(start)) == before["data"]["super_root"]
    return keccak256(b"\xff" + rlp.encode([start, blocks, bytes([step])]))


def dispute_super_roots(watch: Leftovers, net: Devnet, ours: str, chains: Sequence[Mapping[str, Any]]) -> None:
    """Have op-challenger play by the super roots of `ours`; each chain has its `engine`, `rollup`, `l2_genesis`.

    It moves down to a step between two seconds, whose root has the optimistic outputs of the next one."""
    genesis = int(json.loads(Path(chains[0]["rollup"]).read_text())["genesis"]["l2_time"])
    roots = super_roots(ours, genesis)
    games = PlayableGames(net.network["l1"], playable_game(genesis, roots[0], DEPTH + STEPS_DEPTH))
    right, wrong = (games.create(SUPER_PERMISSIONED, root, genesis + BLOCKS) for root in (roots[BLOCKS], WRONG))
    machine = watch.folder / "machine"
    machine.touch()
    engines, rollups, geneses = (
        ",".join(str(chain[name]) for chain in chains) for name in ("engine", "rollup", "l2_genesis")
    )
    options = {
        first_option(find_program("op-challenger"), "superroot-rpcs", "supernode-rpc"): ours,
        "l2-eth-rpc": engines,
        "cannon-bin": machine,
        "cannon-server": machine,
        "cannon-prestate": machine,
        "cannon-rollup-config": rollups,
        "cannon-l2-genesis": geneses,
        "cannon-depset-config": net.root / "dependency-set.json",
    }
    with Challenger(watch, net, games, "super-permissioned", **options) as challenger:
        claims = challenger.wait_for_claims(wrong, 2)
        assert (claims[1].position, claims[1].root) == (2, to_hex(roots[4]))
        games.attack(wrong, 1, WRONG)
        claims = challenger.wait_for_claims(wrong, 4)
        assert (claims[3].position, claims[3].root) == (8, to_hex(roots[1]))
        games.attack(wrong, 3, WRONG)
        claims = challenger.wait_for_claims(wrong, 6)
        assert (claims[5].position, claims[5].root) == (32, to_hex(transition(ours, genesis, 32)))
        challenger.finish(right)


def test_it_disputes_super_roots_with_those_of_a_node(net: Devnet, module_leftovers: Leftovers) -> None:
    verifier = net.node("verifier")
    dispute_super_roots(module_leftovers, net, verifier["rpc"], [{**net.network, "engine": verifier["engine"]}])


def test_it_disputes_super_roots_with_those_of_a_supernode(leftovers: Leftovers) -> None:
    find_program("op-challenger")
    with Chains(leftovers, "--chains=2") as net:
        net.wait_for_height(BLOCKS)
        chains = [net.chain(chain).network for chain in CHAINS]
        ours = net.supernodes["supernode"]
        dispute_super_roots(
            leftovers, net, ours, [{**chain, "engine": chain["engines"]["supernode"]} for chain in chains]
        )
        net.finish()


def test_op_dispute_mon_agrees_with_right_claims_alone(net: Devnet, module_leftovers: Leftovers) -> None:
    """Of outputs and of super roots, by the answers of our verifier, without an error."""
    binary, port = find_program("op-dispute-mon"), free_port()
    about, ours = net.network, net.node("verifier")["rpc"]
    genesis = int(call(ours, "optimism_rollupConfig")["genesis"]["l2_time"])
    games = PlayableGames(about["l1"], playable_game(0, WRONG, DEPTH))
    for kind, root, number in (
        (ALPHABET, output_roots(ours)[BLOCKS], BLOCKS),
        (SUPER_PERMISSIONED, super_roots(ours, genesis)[BLOCKS], genesis + BLOCKS),
    ):
        games.create(kind, root, number)
        games.create(kind, WRONG, number)
    options = {
        "l1-eth-rpc": about["l1"],
        "rollup-rpc": ours,
        first_option(binary, "superroot-rpc", "supernode-rpc"): ours,
        "game-factory-address": to_hex(games.factory),
        "monitor-interval": "1s",
        "metrics.enabled": "true",
        "metrics.addr": own_address(),
        "metrics.port": port,
    }
    with ForeignProgram(module_leftovers, binary, *words(options)) as monitor:

        def judged() -> dict[str, float]:
            assert monitor.running, monitor.out[-3000:] + monitor.err[-3000:]
            text = http_get(f"http://{own_address()}:{port}/metrics")[1]
            return {name: float(value) for name, value in METRIC.findall(text)}

        def all_judged() -> dict[str, float]:
            values = judged()
            return (
                values
                if sum(values.get(f"{status}_defender_ahead", 0) for status in ("agree", "disagree")) == 4
                else {}
            )

        values = net.wait(all_judged, "all games are judged")
        assert (values["agree_defender_ahead"], values["disagree_defender_ahead"]) == (2, 2), monitor.out[-3000:]
        assert values["failed_games"] == values["node_endpoint_error_count"] == 0, monitor.out[-3000:]
        monitor.stop()
