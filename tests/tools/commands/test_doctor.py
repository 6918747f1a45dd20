"""The doctor's findings for diagnoses, and the command's output and exit code."""

import copy
import socket
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest

from rollup_node.stages.p2p.discv5.packet_codec import PacketDrop
from rollup_node.stages.p2p.peering.peer_info import Diagnosis
from rollup_node.tools.commands.doctor import Finding, Severity, examine
from tests.support.processes.cli import Cli
from tests.support.servers.threads import json_rpc_server

TOPIC = "/optimism/10/3/blocks"
SIGNER = "0x" + "11" * 20
HEALTHY: dict[str, Any] = {
    "peer": "16Uiu2HAm",
    "chain_id": 10,
    "listens": ["/ip4/0.0.0.0/tcp/9222"],
    "is_listening": True,
    "low": 20,
    "high": 30,
    "inbound": 12,
    "outbound": 10,
    "inbound_ever": 40,
    "observed": {"/ip4/8.8.8.8/tcp/9222": 20},
    "known": 200,
    "dialable": 150,
    "static_missing": [],
    "dial_problems": {},
    "bans": {},
    "blocked": 0,
    "departed": [],
    "discovery": {
        "record": "enr:-x",
        "endpoint": "0.0.0.0:9222",
        "ip": "8.8.8.8",
        "tcp": 9222,
        "udp": 9222,
        "nodes": {"nodes": 100, "live": 80, "ours": 30, "other_chain": 20, "no_chain": 30},
        "drops": {},
    },
    "gossip": {
        "topic": TOPIC,
        "topics": {TOPIC: 20},
        "meshes": {TOPIC: 8},
        "low": 6,
        "accepted": 500,
        "accepted_ago": 1.5,
        "refused": {"seen": 7},
        "published": 0,
        "signer": SIGNER,
        "own_signer": None,
    },
    "problems": [],
}


def findings(is_reached: bool | None = True, **changes: Any) -> list[Finding]:
    """Return the findings on a healthy node with some values changed; `a__b` is `b` within `a`."""
    result = copy.deepcopy(HEALTHY)
    for name, value in changes.items():
        place = result
        *outer, last = name.split("__")
        for key in outer:
            place = place[key]
        place[last] = value
    return examine(msgspec.convert(result, Diagnosis), is_reached)


def test_a_healthy_node_has_no_finding_above_ok() -> None:
    report = findings()
    assert {item.level for item in report} == {Severity.OK}
    assert [item.text for item in report] == [
        "our record says 8.8.8.8, TCP port 9222, UDP port 9222",
        "40 connections have come in from other machines",
        "discovery table: 100 nodes, 80 live: 30 of our chain, 20 of other chains, 30 of none",
        "22 peers (12 inbound, 10 outbound), 20 to 30 wanted; 200 known, 150 with an address",
        f"20 peers are on {TOPIC}, 8 of them in our mesh",
        "500 blocks from peers, the last 1.5 s ago",
    ]


LOST = [{"peer": "x", "why": "closed by the peer", "lasted": 0.5}] * 30
NO_PEERS = {"inbound": 0, "outbound": 0}
NONE_OF_OURS = {"discovery__nodes__ours": 0}
BANS = {"P": 100.0, "Q": 3599.6}
OTHER_SIGNER = f"our blocks are signed by 0x22, the unsafe block signer on L1 is {SIGNER}"
RESTRICTED = {PacketDrop.RESTRICTED.value: 5}
OUTSIDE = "/ip4/1: outside p2p.netrestrict"


@pytest.mark.condition("C7")
@pytest.mark.parametrize(
    ("changes", "level", "text", "advice"),
    [
        ({"is_listening": False}, "fault", "it does not listen for peers", "p2p.listen"),
        ({"problems": ["the disk is full"]}, "fault", "the disk is full", ""),
        ({"discovery__ip": None}, "warn", "our record has no address", "give p2p.advertise.ip"),
        ({"discovery__ip": "9.9.9.9"}, "warn", "our record says 9.9.9.9, but 20 peers see us at 8.8.8.8", "--p2p.adv"),
        ({"is_reached": False}, "warn", "8.8.8.8 port 9222 accepts no connection from here", "forward it"),
        ({"inbound_ever": 0}, "note", "no other machine has connected", "the TCP port is closed"),
        ({"discovery": None}, "note", "discovery is off", ""),
        ({"discovery__nodes__nodes": 0}, "warn", "discovery has no nodes", "check p2p.bootnodes"),
        ({"discovery__nodes__nodes": 0, **NO_PEERS}, "fault", "discovery has no nodes", "UDP"),
        (NONE_OF_OURS, "warn", "0 of our chain, 20 of other chains, 30 of none", "of chain 10? see p2p"),
        (NONE_OF_OURS | {"discovery__nodes__live": 0}, "warn", "0 live: 0 of our", "no node answers"),
        ({"discovery__drops": {"too many": 5, "nothing": 0}}, "note", "dropped datagrams: 5 too many", ""),
        ({"discovery__drops": RESTRICTED}, "note", "5 outside the allowed", "p2p.netrestrict excludes"),
        ({"static_missing": ["P"]}, "warn", "static peer P is not connected: not dialled yet", ""),
        ({"dial_problems": {"P": OUTSIDE}}, "note", "1 peers could not", "1 of them for p2p.n"),
        ({**NO_PEERS, "discovery": None}, "fault", "no peers; ", "fails, see above: give reachable ones by p2p.static"),
        ({**NO_PEERS, "dialable": 0}, "fault", "no peers; ", "give some by p2p.bootnodes, or p2p.static"),
        ({"dial_problems": {"P": "no answer within 10 s"}}, "note", "P: no answer within 10 s", ""),
        ({"bans": BANS}, "warn", "we have banned 2 peers, the last of them for 3600 s more", "ban"),
        ({"bans": {"P": 100.0}, **NO_PEERS}, "fault", "we have banned 1 peers", "p2p.ban.threshold"),
        ({"blocked": 3}, "note", "blocked by operators: 3 peers", ""),
        ({"departed": LOST}, "warn", "30 connections ended within 10 s: 30 closed by the peer", "have banned us"),
        ({"departed": LOST[:2]}, "note", "2 connections ended within 10 s", "full"),
        (NO_PEERS, "fault", "no peers; 200 known, 150 with an address", ""),
        ({"inbound": 1, "outbound": 0}, "note", "1 peers (1 inbound, 0 outbound), 20 to 30 wanted", ""),
        ({"gossip__topics": {TOPIC: 0}}, "fault", f"0 peers are on {TOPIC}", "chain and fork"),
        ({"gossip__meshes": {TOPIC: 2}}, "note", "below 6, so own blocks go to all peers of the topic", ""),
        ({"gossip__signer": None}, "fault", "no unsafe block signer is known", "SystemConfig"),
        ({"gossip__own_signer": "0x22"}, "fault", OTHER_SIGNER, ""),
        ({"gossip__own_signer": SIGNER, "gossip__published": 9}, "ok", "9 blocks were published", ""),
        ({"gossip__refused": {"wrong_signer": 9}}, "warn", "not accepted: 9 wrong_signer", "changed on L1"),
        ({"gossip__refused": {"too_old": 9, "ssz": 1}}, "warn", "9 too_old, 1 ssz", "clock"),
        ({"gossip__accepted_ago": None}, "warn", "no block from peers since the start", ""),
        ({"gossip__accepted_ago": 90.0}, "warn", "the last block from peers came 90 s ago", ""),
        ({"gossip__accepted_ago": None, "gossip__own_signer": SIGNER}, "note", "no block from peers", ""),
    ],
)
def test_each_fault_is_reported_with_advice(changes: dict[str, Any], level: str, text: str, advice: str) -> None:
    report = [finding for finding in findings(**changes) if text in finding.text]
    assert len(report) == 1, findings(**changes)
    assert report[0].level is Severity(level) and advice in report[0].advice


@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        (OUTSIDE, "add its network to p2p.netrestrict"),
        ("/ip4/1: peer banned", "opp2p_unblockPeer lifts"),
        ("/ip4/1: subnet blocked", "an operator has blocked it"),
        ("/ip4/1: the remote end is Q, not P", "correct the peer id"),
        ("/ip4/1: the name cannot be resolved: Name or service not known", "correct the host name"),
        ("/ip4/1: Connection refused", "is it running"),
        ("/ip4/1: no answer within 10 s", "its TCP port open"),
        ("/ip4/1: something else", ""),
        ("refused", ""),
    ],
)
def test_a_static_peer_that_is_not_connected(problem: str, advice: str) -> None:
    report = findings(static_missing=["P"], dial_problems={"P": problem})
    (item,) = [item for item in report if f"P is not connected: {problem}" in item.text]
    assert item.level is Severity.WARN and advice in item.advice


def serving(result: object) -> AbstractContextManager[str]:
    return json_rpc_server("opp2p_diagnosis", {"result": result})


def node_on_loopback(**changes: Any) -> dict[str, Any]:
    result = copy.deepcopy(HEALTHY)
    result["discovery"] |= {"ip": "127.0.0.1", "tcp": 1, **changes}
    return result


def test_the_report_as_text(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as peer:
        port = peer.getsockname()[1]
        with serving(node_on_loopback(tcp=port) | {"observed": {}}) as url:
            lines = cli.out("p2p", "doctor", "--rpc", url).splitlines()
    assert lines[0] == "peer 16Uiu2HAm of chain 10, at /ip4/0.0.0.0/tcp/9222"
    assert lines[1] == f"    ok  our record says 127.0.0.1, TCP port {port}, UDP port 9222"


def test_texts_of_a_node_are_shown_without_control_characters(cli: Cli) -> None:
    with serving(node_on_loopback() | {"problems": ["\x1b[2Jno\npeers"]}) as url:
        ended = cli("p2p", "doctor", "--rpc", url)
    assert ended.code == 1 and " fault  \\x1b[2Jno\\npeers\n" in ended.out


@pytest.mark.parametrize(("ip", "port"), [("127.0.0.1", 1 << 40), ("a" * 300, 5), ("\x00", 5)])
def test_an_endpoint_that_is_none_is_not_reached(ip: str, port: int, cli: Cli) -> None:
    with serving(node_on_loopback(ip=ip, tcp=port)) as url:
        assert f"port {port} accepts no connection from here" in cli("p2p", "doctor", "--rpc", url).out


def test_faults_set_the_exit_code_and_appear_in_json(cli: Cli) -> None:
    with serving(node_on_loopback() | {"is_listening": False}) as url:
        text, printed = (cli("p2p", "doctor", "--rpc", url, *more) for more in ((), ("--json",)))
    assert text.code == printed.code == 1
    assert " fault  it does not listen for peers\n        -> see the problems" in text.out
    assert "  warn  127.0.0.1 port 1 accepts no connection from here\n" in text.out
    report = printed.json_result()
    assert report["findings"][0]["level"] == "fault" and report["diagnosis"]["chain_id"] == 10


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error": {"code": -32601, "message": "x"}}, "it runs with --p2p.disable, or is of another version"),
        ({"error": {"code": -32000, "message": "out of order"}}, "out of order"),
        ({"result": {"peer": "x"}}, "answers opp2p_diagnosis with something else"),
        ({"result": [1]}, "answers opp2p_diagnosis with something else"),
    ],
)
def test_an_unexpected_answer_is_reported_in_one_line(answer: dict[str, Any], error: str, cli: Cli) -> None:
    with json_rpc_server("opp2p_diagnosis", answer) as url:
        assert error in cli.refused("p2p", "doctor", "--rpc", url)
