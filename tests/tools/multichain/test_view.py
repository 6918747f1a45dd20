"""What a network of several chains shows in a terminal, and elsewhere."""

import pytest
from rich.console import Console

from rollup_node.tools.multichain import view
from rollup_node.tools.multichain.view import LINE_SECONDS, ChainsView
from tests.tools.inspect.test_status_screen import SUPERNODE

LINE = "   12 s  safe {901: 7, 902: 7, 903: 8}  messages {}"


def test_all_processes_of_three_chains_have_room_on_a_small_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, force_terminal=True, width=80, height=24)
    monkeypatch.setattr(view, "Console", lambda **options: console)
    shown = ChainsView(False)
    shown.message("status pages  supernode http://127.0.0.1:1")
    shown.show(LINE, None)
    shown.show(LINE, SUPERNODE)
    shown.close()
    screen = console.export_text().rpartition(LINE)[2]
    assert shown.wants_status and screen.count("\n") < 24 and max(map(len, screen.split("\n"))) <= 80
    for role in ("supervisor", "l1", "blobs", "compute x2", "derivationx3", "engine x3", "p2p x3", "rpc"):
        assert screen.count(f"{role} ") == 1, screen
    assert all(chain in screen for chain in SUPERNODE.chains)


@pytest.mark.parametrize("is_silent", [False, True])
def test_elsewhere_it_shows_lines_or_nothing(capsys: pytest.CaptureFixture[str], is_silent: bool) -> None:
    shown = ChainsView(is_silent)
    shown.message("[901] is no markup, and not cut" + 100 * ".")
    shown.show(LINE, SUPERNODE)
    shown.close()
    lines = [] if is_silent else ["[901] is no markup, and not cut" + 100 * ".", LINE]
    assert capsys.readouterr().out.splitlines() == lines
    assert not shown.wants_status and shown.seconds == LINE_SECONDS
