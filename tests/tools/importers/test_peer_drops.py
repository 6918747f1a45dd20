"""docs/peer-drops.md lists every reason for which a connection is refused or closed."""

from pathlib import Path

from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.tools.importers.peer_drops import PAGE, main, page


def test_the_page_is_what_the_generator_makes() -> None:
    assert PAGE.read_text() == page(), "run python -m rollup_node.tools.importers.peer_drops"
    assert all(f"`{reason.text.format('…')}`" in page() for reason in PeerDropReason)


def test_the_command_writes_it(tmp_path: Path) -> None:
    out = tmp_path / "docs" / "peer-drops.md"
    assert main(["--out", str(out)]) == 0
    assert out.read_text() == page()
