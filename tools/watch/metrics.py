"""The metrics of `watch`: op-dispute-mon's names where they mean the same [WAT10]."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from rollup_node.tools.watch.games import Game, GameBook, Judgement, Verdict

OWN, MONITOR = "rollup_node_watch", "op_dispute_mon"
GAMES = f"{OWN}_games"

HELP: dict[str, tuple[str, tuple[str, ...]]] = {
    f"{MONITOR}_info": ("Always 1; the version.", ("version",)),
    f"{MONITOR}_up": ("1 when the first look at L1 and at the node is complete.", ()),
    f"{MONITOR}_latest_proposal": (
        "Time in Unix seconds of the newest game with whose claim we agree or disagree.",
        ("root_agreement",),
    ),
    f"{MONITOR}_latest_valid_proposal_l2_block": ("L2 block or time of the newest claim with which we agree.", ()),
    f"{MONITOR}_ignored_games": ("Games of a type that this watch cannot compare.", ()),
    f"{MONITOR}_node_endpoint_out_of_sync_count": ("Games that wait for the node to read more of L1.", ()),
    f"{MONITOR}_last_output_fetch": ("Time in Unix seconds at which the node last gave a root.", ()),
    GAMES: ("Games by our verdict: agree, disagree, not yet, ignored.", ("verdict",)),
    f"{OWN}_anchor_agrees": ("1 while our root is that of the anchor, 0 while it is not, -1 while unknown.", ()),
    f"{OWN}_l1_proven": ("1 while the L1 blocks that are read are ones that the node has proven.", ()),
    f"{OWN}_l1_head": ("Number of the L1 block up to which games are known.", ()),
    f"{OWN}_failing": ("1 while L1 or the node does not answer.", ("endpoint",)),
}
"""Each gauge with its meaning and labels."""


class WatchMetrics:
    """The gauges of one watch."""

    def __init__(self, version: str) -> None:
        self._registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(name, text, labels, registry=self._registry) for name, (text, labels) in HELP.items()
        }
        self.set(f"{MONITOR}_info", 1, version)
        for verdict in Verdict:
            self.set(GAMES, 0, verdict.value)
        for endpoint in ("l1", "node"):
            self.set(f"{OWN}_failing", 0, endpoint)
        self.set(f"{OWN}_anchor_agrees", -1)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def show(self, book: GameBook) -> None:
        """Set the gauges of the games."""
        for verdict in Verdict:
            self.set(GAMES, book.count(verdict), verdict.value)
        self.set(f"{MONITOR}_ignored_games", book.count(Verdict.IGNORED))
        self.set(f"{MONITOR}_node_endpoint_out_of_sync_count", book.count(Verdict.NOT_YET))
        for verdict in (Verdict.AGREE, Verdict.DISAGREE):
            newest = _newest(list(book), verdict)
            if newest is not None:
                self.set(f"{MONITOR}_latest_proposal", newest.timestamp, verdict.value)
                if verdict is Verdict.AGREE:
                    self.set(f"{MONITOR}_latest_valid_proposal_l2_block", newest.l2_sequence_number)

    def text(self) -> bytes:
        """Return the Prometheus text exposition."""
        return generate_latest(self._registry)


def _newest(games: Sequence[tuple[Game, Judgement]], verdict: Verdict) -> Game | None:
    known = [game for game, judgement in games if judgement.verdict is verdict]
    return max(known, key=lambda game: game.timestamp, default=None)
