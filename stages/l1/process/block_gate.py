"""Lets no block out that is not proven or will be, and sets the endpoints aside that have others [LCP15 to LCP18]."""

import asyncio
from collections.abc import Callable

from rollup_node.stages.io.log.lasting_conditions import RepeatedWarnings
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.prefetch_window import PrefetchWindow
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.proof import HIDE_SECONDS, Proof, Standing
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.types import L1BlockRef

log = get_logger("l1")

MAX_SERVED = 4096


class BlockGate:
    """`publish_heads` is called when finality is hidden or shown again, `wake` when blocks should be sent again."""

    def __init__(
        self,
        proof: Proof,
        endpoints: L1Endpoints,
        window: PrefetchWindow,
        publish_heads: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._proof, self._endpoints, self._window = proof, endpoints, window
        self._publish_heads, self._wake = publish_heads, wake
        self._served: dict[int, L1Endpoint] = {}
        self._warnings = RepeatedWarnings(log)
        proof.on_hidden = self._on_hidden

    def forged(self, ref: L1BlockRef, endpoint: L1Endpoint | None) -> str | None:
        """Return why a fetched block is forged, for which its endpoint is set aside; None if it may be good."""
        if endpoint is not None:
            self._served[ref.number] = endpoint
            if len(self._served) > MAX_SERVED:
                self._served = {number: by for number, by in self._served.items() if self._window.get(number)}
        if self._proof.standing(ref.number, ref.hash) is not Standing.FORGED:
            return None
        text = f"its L1 block {ref} is not the one that the proven head links to"
        self._blame(ref.number, text)
        return text

    def admits(self, ref: L1BlockRef, derivation: int | None) -> bool:
        """Whether a client may have a cached block now; a forged one is dropped, so that it is fetched again.

        `derivation` is the L2 chain id of that client, None for another client."""
        standing = self._proof.admits(ref, derivation)
        if standing is Standing.FORGED:
            self.forged(ref, None)
            self._window.drop(ref.number)
            self._wake()
        return standing in (Standing.PROVEN, Standing.FAR)

    def sent(self, ref: L1BlockRef, derivation: int) -> None:
        """Take a block that a derivation was sent, which resets itself if the one before is not its parent."""
        was_shown = self._proof.shows_finality
        if not self._proof.sent(ref, derivation):
            text = f"its L1 block {ref.number - 1}, used unproven, is not the parent of {ref}"
            log.warn("a catch-up does not link to the proven L1 block", code=Code.L1_UNPROVEN.text, block=ref)
            self._blame(ref.number - 1, text)
            self._window.drop(ref.number - 1)
        if self._proof.shows_finality != was_shown:
            self._publish_heads()

    def _blame(self, number: int, text: str) -> None:
        """Set aside the endpoint that a block is from, if it is known."""
        endpoint = self._served.get(number)
        if endpoint is not None:
            title = "an L1 endpoint has a block that is not proven"
            self._warnings.warn(endpoint.name, title, code=Code.L1_UNPROVEN.text, endpoint=endpoint.name, reason=text)
            self._endpoints.set_aside(endpoint, EndpointFault.UNPROVEN, text)

    def _on_hidden(self) -> None:
        """Hide finality before an unproven block is used; the block follows after the pause."""
        self._publish_heads()
        asyncio.get_running_loop().call_later(HIDE_SECONDS, self._wake)
