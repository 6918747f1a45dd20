"""`rollup-node p2p doctor`: why a running node has few peers or gets no blocks from them, and what to do about it."""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import msgspec

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.p2p.peering.peer_info import Diagnosis
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.flags import FlagParser, url
from rollup_node.tools.inspect.status_screen import call_node

DESCRIPTION = """Reports on the peers of a running node: whether it listens and is reachable, what address its record
has, which nodes discovery found, why dialling fails, which peers were banned or disconnected, and why gossiped blocks
were not accepted."""
METHOD = "opp2p_diagnosis"
DIAL_SECONDS = 3.0
SHORT_SECONDS = 10.0
QUIET_SECONDS = 60.0
MAX_NAMED = 5
RESTRICTED = "outside the allowed networks"
"""The reason by which discovery drops datagrams from outside of p2p.netrestrict."""


class Severity(Enum):
    """How severe a finding is: FAULT keeps the node from its peers or their blocks, WARN makes that likely."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAULT = "fault"


class Finding(NamedTuple):
    """One line of the report, and advice."""

    level: Severity
    text: str
    advice: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 if nothing is at fault."""
    parser = FlagParser("p2p doctor", DESCRIPTION)
    parser.add_argument("--rpc", type=url, metavar="URL", required=True, help="JSON-RPC of a running node")
    parser.add_argument("--json", action="store_true", help="the diagnosis and the findings as one JSON object")
    flags = parser.parse_all(arguments)
    diagnosis, is_reached = asyncio.run(_request(flags.rpc))
    try:
        findings = examine(diagnosis, is_reached)
    except KeyError:
        raise _wrong_version() from None
    if flags.json:
        listed = [
            {"level": finding.level.value, "text": finding.text, "advice": finding.advice} for finding in findings
        ]
        print(msgspec.json.encode({"diagnosis": diagnosis, "findings": listed}).decode())
    else:
        print("\n".join(report_lines(diagnosis, findings)), flush=True)
    return 1 if any(finding.level is Severity.FAULT for finding in findings) else 0


def _wrong_version() -> SetupError:
    return SetupError(f"--rpc: the node answers {METHOD} with something else: is it of this version?")


def report_lines(diagnosis: Diagnosis, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the report; texts of the node are shown without control characters."""
    yield escaped_line(f"peer {diagnosis.peer} of chain {diagnosis.chain_id}, at {', '.join(diagnosis.listens)}")
    for finding in findings:
        yield escaped_line(f"{finding.level.value:>6}  {finding.text}")
        if finding.advice:
            yield escaped_line(f"{'':>6}  -> {finding.advice}")


async def _request(endpoint: str) -> tuple[Diagnosis, bool | None]:
    """Return the diagnosis, and whether the endpoint in the node's record accepts connections from here.

    None if it has no endpoint. Raises SetupError."""
    answer = await call_node(endpoint, METHOD, "it runs with --p2p.disable, or is of another version")
    try:
        diagnosis = msgspec.convert(answer, Diagnosis)
    except msgspec.ValidationError:
        raise _wrong_version() from None
    discovery = diagnosis.discovery
    if discovery is None or not discovery.ip or not discovery.tcp:
        return diagnosis, None
    return diagnosis, await _is_reachable(discovery.ip, discovery.tcp)


async def _is_reachable(ip: str, port: int) -> bool:
    """Whether a TCP connection is accepted there. Host and port are those that the node says."""
    with suppress(OSError, TimeoutError, ValueError, OverflowError):
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(ip, port)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            return True
    return False


# --- findings ---------------------------------------------------------------------------------------------------------


def examine(diagnosis: Diagnosis, is_reached: bool | None) -> list[Finding]:
    """All findings, in the order in which a connection is established."""
    checks: tuple[Callable[[Diagnosis], Iterator[Finding]], ...] = (
        _problems,
        lambda diagnosis: _address(diagnosis, is_reached),
        _discovery,
        _dialling,
        _disconnects,
        _peers,
        _mesh,
        _blocks,
    )
    return [finding for check in checks for finding in check(diagnosis)]


def _problems(diagnosis: Diagnosis) -> Iterator[Finding]:
    if not diagnosis.is_listening:
        yield Finding(Severity.FAULT, "it does not listen for peers", "see the problems below, and p2p.listen.*")
    for problem in diagnosis.problems:
        yield Finding(Severity.FAULT, problem)


def _address(diagnosis: Diagnosis, is_reached: bool | None) -> Iterator[Finding]:
    """Whether the advertised address is right, and whether others reach it."""
    discovery = diagnosis.discovery
    seen = Counter({_host(text): count for text, count in diagnosis.observed.items()})
    usual = seen.most_common(1)[0][0] if seen else None
    if discovery is not None:
        ip, tcp = discovery.ip, discovery.tcp
        if ip is None:
            yield Finding(
                Severity.WARN, "our record has no address, so no peer finds us", "give p2p.advertise.ip, or p2p.nat"
            )
        elif usual is not None and usual != ip and _is_public(usual):
            yield Finding(
                Severity.WARN,
                f"our record says {ip}, but {seen[usual]} peers see us at {usual}",
                f"give --p2p.advertise.ip={usual} if that is right",
            )
        elif tcp:
            yield Finding(Severity.OK, f"our record says {ip}, TCP port {tcp}, UDP port {discovery.udp}")
        if is_reached is False:
            yield Finding(
                Severity.WARN,
                f"{ip} port {tcp} accepts no connection from here",
                "open the TCP port in the firewall and forward it, or give p2p.nat (a router may refuse its own side)",
            )
    if diagnosis.inbound_ever:
        yield Finding(Severity.OK, f"{diagnosis.inbound_ever} connections have come in from other machines")
    else:
        yield Finding(
            Severity.NOTE,
            "no other machine has connected since the start",
            "if that stays so, the TCP port is closed or not forwarded",
        )


def _discovery(diagnosis: Diagnosis) -> Iterator[Finding]:
    discovery = diagnosis.discovery
    if discovery is None:
        yield Finding(Severity.NOTE, "discovery is off: only static peers, and those that find us, are peers")
        return
    nodes = discovery.nodes
    if not nodes["nodes"]:
        yield Finding(
            Severity.FAULT if not _connected(diagnosis) else Severity.WARN,
            "discovery has no nodes",
            "check p2p.bootnodes, p2p.netrestrict, and that UDP is allowed in both directions",
        )
        return
    others = f"{nodes['other_chain']} of other chains, {nodes['no_chain']} of none"
    text = f"discovery table: {nodes['nodes']} nodes, {nodes['live']} live: {nodes['ours']} of our chain, {others}"
    if nodes["ours"]:
        yield Finding(Severity.OK, text)
    elif nodes["live"]:
        yield Finding(Severity.WARN, text, f"are these the bootnodes of chain {diagnosis.chain_id}? see p2p.bootnodes")
    else:
        yield Finding(Severity.WARN, text, "no node answers: UDP is blocked, or p2p.bootnodes are gone")
    drops = {reason: count for reason, count in discovery.drops.items() if count}
    if drops:
        advice = "p2p.netrestrict excludes these" if RESTRICTED in drops else ""
        yield Finding(Severity.NOTE, f"dropped datagrams: {_counts(drops)}", advice)


def _dialling(diagnosis: Diagnosis) -> Iterator[Finding]:
    errors = diagnosis.dial_problems
    for peer in diagnosis.static_missing:
        reason = errors.get(peer, "not dialled yet")
        yield Finding(Severity.WARN, f"static peer {peer} is not connected: {reason}", _advice_on_dialling(reason))
    rest = [(peer, text) for peer, text in errors.items() if peer not in diagnosis.static_missing]
    if rest:
        restricted = sum("p2p.netrestrict" in text for _, text in rest)
        advice = f"{restricted} of them for p2p.netrestrict alone" if restricted else ""
        yield Finding(Severity.NOTE, f"{len(rest)} peers could not be dialled recently", advice)
        yield from (Finding(Severity.NOTE, f"{peer}: {text}") for peer, text in rest[-MAX_NAMED:])


def _disconnects(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Ban that we issued, and what suggests that peers banned us."""
    bans = diagnosis.bans
    if bans:
        level = Severity.FAULT if len(bans) >= max(1, _connected(diagnosis)) else Severity.WARN
        longest = max(bans.values())
        yield Finding(
            level,
            f"we have banned {len(bans)} peers, the last of them for {longest:.0f} s more",
            "look at their scores (opp2p_peers); opp2p_unblockPeer lifts a ban; lower p2p.ban.threshold, or give "
            "--p2p.ban.peers=false",
        )
    if diagnosis.blocked:
        yield Finding(Severity.NOTE, f"blocked by operators: {diagnosis.blocked} peers, addresses or networks")
    short = [closed for closed in diagnosis.departed if closed.lasted < SHORT_SECONDS]
    if short:
        reasons = Counter(closed.why for closed in short)
        yield Finding(
            Severity.WARN if len(short) > _connected(diagnosis) else Severity.NOTE,
            f"{len(short)} connections ended within {SHORT_SECONDS:.0f} s: {_counts(reasons)}",
            "peers that disconnect at once are full, follow another chain, or have banned us",
        )


def _peers(diagnosis: Diagnosis) -> Iterator[Finding]:
    count, low = _connected(diagnosis), diagnosis.low
    text = (
        f"{count} peers ({diagnosis.inbound} inbound, {diagnosis.outbound} outbound), {low} to {diagnosis.high} wanted"
    )
    known = f"{diagnosis.known} known, {diagnosis.dialable} with an address"
    if not count:
        sources = "p2p.static" if diagnosis.discovery is None else "p2p.bootnodes, or p2p.static"
        advice = f"dialling them fails, see above: give reachable ones by {sources}"
        yield Finding(Severity.FAULT, f"no peers; {known}", advice if diagnosis.dialable else f"give some by {sources}")
    else:
        yield Finding(Severity.OK if count >= low else Severity.NOTE, f"{text}; {known}")


def _mesh(diagnosis: Diagnosis) -> Iterator[Finding]:
    gossip = diagnosis.gossip
    mesh, on_topic = gossip.meshes[gossip.topic], gossip.topics[gossip.topic]
    text = f"{on_topic} peers are on {gossip.topic}, {mesh} of them in our mesh"
    if not _connected(diagnosis):
        return
    if not on_topic:
        yield Finding(Severity.FAULT, text, "are the peers of this chain and fork?")
    elif mesh < gossip.low:
        yield Finding(Severity.NOTE, f"{text}: below {gossip.low}, so own blocks go to all peers of the topic")
    else:
        yield Finding(Severity.OK, text)


def _blocks(diagnosis: Diagnosis) -> Iterator[Finding]:
    gossip = diagnosis.gossip
    if gossip.signer is None:
        yield Finding(
            Severity.FAULT,
            "no unsafe block signer is known: gossiped blocks are ignored",
            "it is read from the SystemConfig contract on L1: is L1 reached, and l1_system_config_address right?",
        )
    own = gossip.own_signer
    if own is not None and own != gossip.signer:
        yield Finding(
            Severity.FAULT, f"our blocks are signed by {own}, the unsafe block signer on L1 is {gossip.signer}"
        )
    if own is not None:
        yield Finding(Severity.OK if gossip.published else Severity.NOTE, f"{gossip.published} blocks were published")
    failures = {reason: count for reason, count in gossip.refused.items() if reason != "seen"}
    if failures:
        yield Finding(Severity.WARN, f"gossiped blocks not accepted: {_counts(failures)}", _advice_on(failures))
    ago = gossip.accepted_ago
    if ago is None or ago > QUIET_SECONDS:
        text = (
            "no block from peers since the start" if ago is None else f"the last block from peers came {ago:.0f} s ago"
        )
        yield Finding(Severity.NOTE if own is not None else Severity.WARN, text)
    else:
        yield Finding(Severity.OK, f"{gossip.accepted} blocks from peers, the last {ago:.1f} s ago")


def _advice_on_dialling(reason: str) -> str:
    advice = {
        "p2p.netrestrict": "add its network to p2p.netrestrict",
        "banned": "opp2p_unblockPeer lifts the ban",
        "blocked": "an operator has blocked it: see opp2p_unblockPeer, opp2p_unblockAddr and opp2p_unblockSubnet",
        "the remote end is": "its key has changed: correct the peer id in p2p.static",
        "cannot be resolved": "correct the host name in p2p.static, or this machine's name servers",
        "refused": "is it running, and the port in p2p.static right?",
        "no answer": "is it running, and its TCP port open to us?",
    }
    return next((text for sign, text in advice.items() if sign in reason), "")


def _advice_on(failures: Mapping[str, int]) -> str:
    advice = {
        "wrong_signer": "the signer may have changed on L1 (l1.runtime-config-reload-interval)",
        "too_old": "check this machine's clock, and whether blocks come late (p2p.gossip.timestamp.threshold)",
        "future": "check this machine's clock",
        "block_hash": "a fork may be missing here: compare the rollup config with the network's",
        "blob_gas_used": "a fork may be missing here: compare the rollup config with the network's",
    }
    return advice.get(max(failures, key=lambda reason: failures[reason]), "")


def _connected(diagnosis: Diagnosis) -> int:
    return int(diagnosis.inbound) + int(diagnosis.outbound)


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {reason}" for reason, count in ordered[:MAX_NAMED])


def _host(multiaddr: str) -> str:
    return multiaddr.split("/")[2] if multiaddr.count("/") >= 2 else multiaddr


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False
