"""op-challenger beside our node: it reads our outputs and super roots, leaves a right claim alone and moves against
a wrong one, with roots that are ours. Nothing here needs a machine's run: games end before their last moves.

An op-challenger whose source of super roots is an op-supervisor is skipped."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.files import TRANSFER_KEY
from tests.support.foreign.op_programs import ForeignProgram, find_program, first_option, words
from tests.support.foreign.playable_games import ALPHABET_PRESTATE, Claim, PlayableGames, playable_game
from tests.support.processes.chains import CHAINS, Chains
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call, http_get
from tests.support.servers.loopback import free_port, own_address

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
