"""The status page of a supernode [SNO12]."""

from pathlib import Path

import orjson

from tests.support.rpc.supernode import CHAINS, SupernodeHarness


async def test_the_status_page_has_a_row_for_each_chain(tmp_path: Path) -> None:
    """[SNO12]"""
    async with SupernodeHarness(tmp_path, status_enabled=True, status_addr="127.0.0.1").running() as supernode:
        assert supernode.stage.status is not None
        supernode.url = f"http://127.0.0.1:{supernode.stage.status.port}"
        for path in ("/", "/status"):
            status, text = await supernode.get(path)
            assert status == 200 and "2 of 2 chains are ready" in text
            assert "http-equiv" not in text, "a page that loads itself again is not accessible"
            assert all(f'href="/{chain}/status"' in text for chain in CHAINS)
        for path in ("/901/status", "/902/status/uplot.js"):
            assert (await supernode.get(path))[0] == 200
        assert (await supernode.get("/903/status"))[0] == 404
        assert list(orjson.loads((await supernode.get("/status.json"))[1])["chains"]) == ["901", "902"]
