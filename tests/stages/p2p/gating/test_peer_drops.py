"""Reasons for which a connection is refused or closed."""

from rollup_node.stages.p2p.gating.peer_drops import PeerDrop, PeerDropReason


def test_a_drop_is_printed_with_what_its_case_adds() -> None:
    assert str(PeerDrop(PeerDropReason.BANNED, "score -101.0 is below -100")) == "banned: score -101.0 is below -100"
    assert str(PeerDrop(PeerDropReason.IDLE)) == "idle"


def test_reasons_are_lines_for_people() -> None:
    assert len({reason.text for reason in PeerDropReason}) == len(PeerDropReason)
    for reason in PeerDropReason:
        assert reason.meaning.endswith(".") and "\n" not in reason.meaning + reason.remedy
