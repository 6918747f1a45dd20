"""The status page of a supernode: a row for each chain, with links to their pages [RPC95, SNO12]."""

from collections.abc import Callable, Mapping
from html import escape

from aiohttp import web

from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.process.status_server import (
    Statuses,
    add_headers,
    content_security_policy,
    page_access,
    refused_page,
)
from rollup_node.stages.rpc.status.node_status import BlockStatus, NodeStatus

_SCRIPT = """setInterval(async () => {
  const answer = await fetch(location.href).catch(() => null)
  if (!answer?.ok) return
  const page = new DOMParser().parseFromString(await answer.text(), "text/html")
  document.title = page.title
  document.querySelector("main").replaceWith(page.querySelector("main"))
}, 5000)"""
_STYLE = """:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8886; padding: .4rem .8rem; text-align: left; vertical-align: top }
.number { font-variant-numeric: tabular-nums; text-align: right }"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style><script>{script}</script></head>
<body><main><h1>{title}</h1><table><thead><tr><th scope="col">Chain<th scope="col">State
<th scope="col" class="number">Unsafe<th scope="col" class="number">Safe<th scope="col" class="number">Finalized
<th scope="col">Reasons</tr></thead><tbody>{rows}</tbody></table></main>
</body></html>
"""


class ChainsPage:
    """Serves the table of all chains under `vhosts`, IP addresses and localhost, and their statuses as JSON."""

    def __init__(self, chains: Mapping[str, Statuses], json: Callable[[], bytes], vhosts: tuple[str, ...]) -> None:
        self._chains, self._json, self._access = chains, json, page_access(vhosts)

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer a request."""
        response = refused_page(request, self._access) or self._respond(request.path)
        add_headers(response)
        return response

    def _respond(self, path: str) -> web.Response:
        if path == "/status.json":
            return web.Response(body=self._json() + b"\n", content_type="application/json")
        if path not in ("/", "/status"):
            return web.Response(status=404, text="404 page not found\n")
        statuses = {chain: source.status() for chain, source in self._chains.items()}
        ready = sum(status.ready for status in statuses.values())
        page = _PAGE.format(
            script=_SCRIPT,
            title=f"{ready} of {len(statuses)} chains are ready",
            style=_STYLE,
            rows="".join(_row(chain, status) for chain, status in statuses.items()),
        )
        headers = {"Content-Security-Policy": content_security_policy(page)}
        return web.Response(text=page, content_type="text/html", headers=headers)


def _row(chain: str, status: NodeStatus) -> str:
    heads = "".join(f'<td class="number">{_number(head)}' for head in _heads(status))
    name = f"{status.chain.network} ({chain})" if status.chain.network else chain
    reasons = "<br>".join(map(escape, status.reasons)) or "ready"
    link = f'<a href="/{chain}/status">{escape(name)}</a>'
    return f'<tr><th scope="row">{link}<td>{escape(status.sentence)}{heads}<td>{reasons}</tr>'


def _heads(status: NodeStatus) -> tuple[BlockStatus | None, ...]:
    return status.heads.unsafe, status.heads.safe, status.heads.finalized


def _number(head: BlockStatus | None) -> str:
    return "unknown" if head is None else f"{head.number:,}"
