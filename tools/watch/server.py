"""Serves the page, the games as JSON and the metrics of `watch`. It only reads, and answers only GET."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from html import escape
from typing import NamedTuple

from aiohttp import web

from rollup_node.stages.protocol.config import utc_time

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
