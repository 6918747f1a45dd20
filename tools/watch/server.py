"""Serves the page, the games as JSON and the metrics of `watch`. It only reads, and answers only GET."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from html import escape
from typing import NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from rollup_node.stages.protocol.config import utc_time
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


MAX_REQUEST = 4_096
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
MAX_ROWS = 500
COLUMNS = ("Verdict", "Created (UTC)", "Game", "Type", "L2 block or time", "Claim", "Ours", "Why", "Proven")


class Pages(NamedTuple):
    """What is served now: HTML, JSON, and the exposition of metrics."""

    html: Callable[[], str]
    json: Callable[[], bytes]
    metrics: Callable[[], bytes]


@asynccontextmanager
async def serving(pages: Pages, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context is open, and yield the port. Raises OSError where the port is in use."""
    app = web.Application(client_max_size=MAX_REQUEST)

    async def html(request: web.Request) -> web.Response:
        return web.Response(text=pages.html(), content_type="text/html", headers=HEADERS)

    async def json(request: web.Request) -> web.Response:
        return web.Response(body=pages.json(), content_type="application/json", headers=HEADERS)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=pages.metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app.router.add_get("/", html)
    app.router.add_get("/games.json", json)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound: int = runner.addresses[0][1]
        yield bound
    finally:
        await runner.cleanup()


STYLE = """body{font:14px system-ui,sans-serif;margin:2em}table{border-collapse:collapse}
td,th{padding:.3em .6em;border-bottom:1px solid #8886;text-align:left}td{font-variant-numeric:tabular-nums}
.disagree{background:#c003;font-weight:bold}.agree{color:#080}code{font-size:12px}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}.agree{color:#6c6}}"""


def page(summary: str, records: Sequence[Mapping[str, object]]) -> str:
    """Return the HTML page; all texts of others are escaped."""
    rows = "".join(map(_row, records[:MAX_ROWS]))
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    more = f"<p>{len(records) - MAX_ROWS} older games are not shown.</p>" if len(records) > MAX_ROWS else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
        f"<title>Dispute games</title><style>{STYLE}</style><h1>Dispute games</h1><p>{escape(summary)}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}</html>"
    )


def _row(values: Mapping[str, object]) -> str:
    time = values["timestamp"]
    shown = utc_time(time) if isinstance(time, int) else ""
    cells = (
        values["verdict"],
        shown,
        values["proxy"],
        values["gameType"],
        values["l2SequenceNumber"],
        values["rootClaim"],
        values["expectedRootClaim"] or "",
        values["missing"] or values["reason"],
        "yes" if values["proven"] else "no",
    )
    kind = str(values["verdict"]).replace(" ", "-")
    return f'<tr class="{escape(kind)}">' + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"
