"""`rollup-node p2p doctor`: why a running node has few peers, or gets no blocks from them, and what to do about it."""

import asyncio
import ipaddress
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

import orjson

from rollup_node.node.commands.flags import Parser, url
from rollup_node.node.system.exit_codes import SetupError

DESCRIPTION = """Asks a running node about its peers: whether it listens and is reached, what its record says of its
address, whom discovery knows, why dialling fails, who was banned, who hung up, and what became of gossiped blocks."""
METHOD = "opp2p_diagnosis"
DIAL_SECONDS = 3.0
SHORT_SECONDS = 10.0
QUIET_SECONDS = 60.0
MOST_NAMED = 5
RESTRICTED = "outside the allowed networks"
"""As discovery says it of a datagram."""

Diagnosis = Mapping[str, Any]


class Level(Enum):
    """How bad a finding is: FAULT keeps the node from its peers or their blocks, WARN makes that likely."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAULT = "fault"


class Finding(NamedTuple):
    """One line of the report, and what to do."""

    level: Level
    text: str
    advice: str = ""


def main(words: Sequence[str]) -> int:
    """Runs the command; 0 if nothing is at fault."""
    parser = Parser("p2p doctor", DESCRIPTION)
    parser.add_argument("--rpc", type=url, metavar="URL", required=True, help="JSON-RPC of a running node")
    parser.add_argument("--json", action="store_true", help="the diagnosis and the findings as one JSON object")
    flags = parser.parse_all(words)
    diagnosis, is_reached = asyncio.run(_ask(flags.rpc))
    try:
        findings = examine(diagnosis, is_reached)
    except (KeyError, TypeError, ValueError):
        raise SetupError(f"--rpc: the node answers {METHOD} with something else: is it of this version?") from None
    if flags.json:
        told = [{"level": found.level.value, "text": found.text, "advice": found.advice} for found in findings]
        print(orjson.dumps({"diagnosis": diagnosis, "findings": told}).decode())
    else:
        _print(diagnosis, findings)
    return 1 if any(found.level is Level.FAULT for found in findings) else 0


def _print(diagnosis: Diagnosis, findings: Sequence[Finding]) -> None:
    print(f"peer {diagnosis['peer']} of chain {diagnosis['chain_id']}, at {', '.join(diagnosis['listens'])}")
    for found in findings:
        print(f"{found.level.value:>6}  {found.text}")
        if found.advice:
            print(f"{'':>6}  -> {found.advice}")
    sys.stdout.flush()


async def _ask(endpoint: str) -> tuple[Diagnosis, bool | None]:
    """The diagnosis, and whether the address of the node's record answers from here (None: it has none)."""
    from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
    from rollup_node.stages.protocol.jsonrpc_codes import METHOD_NOT_FOUND

    client = JsonRpcClient(endpoint)
    try:
        found = await client.call(METHOD)
    except RpcFailure as error:
        hint = (
            ": it runs with --p2p.disable, or is of another version" if error.code == METHOD_NOT_FOUND else f": {error}"
        )
        raise SetupError(f"--rpc: {client.name} does not answer {METHOD}{hint}") from None
    except EndpointError as error:
        raise SetupError(
            f"--rpc: {METHOD}: {error}; is the node running, and are these its rpc.addr and rpc.port?"
        ) from None
    finally:
        await client.close()
    discovery = found.get("discovery") if isinstance(found, dict) else None
    if not discovery or not discovery.get("ip") or not discovery.get("tcp"):
        return found, None
    return found, await _answers(discovery["ip"], discovery["tcp"])


async def _answers(ip: str, port: int) -> bool:
    """Whether somebody accepts a connection there."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(ip, port)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            return True
    return False


# --- judging ---------------------------------------------------------------------------------------------------------


def examine(diagnosis: Diagnosis, is_reached: bool | None) -> list[Finding]:
    """All that can be said, in the order in which a connection comes about."""
    checks: tuple[Callable[[Diagnosis], Iterator[Finding]], ...] = (
        _troubles,
        lambda found: _address(found, is_reached),
        _discovery,
        _dialling,
        _partings,
        _peers,
        _mesh,
        _blocks,
    )
    return [finding for check in checks for finding in check(diagnosis)]


def _troubles(found: Diagnosis) -> Iterator[Finding]:
    if not found["is_listening"]:
        yield Finding(Level.FAULT, "it does not listen for peers", "see the problems below, and p2p.listen.*")
    for problem in found["problems"]:
        yield Finding(Level.FAULT, problem)


def _address(found: Diagnosis, is_reached: bool | None) -> Iterator[Finding]:
    """Port reachable? Advertised address right?"""
    discovery = found["discovery"]
    seen = Counter({_host(text): count for text, count in found["observed"].items()})
    usual = seen.most_common(1)[0][0] if seen else None
    if discovery is not None:
        ip, tcp = discovery["ip"], discovery["tcp"]
        if ip is None:
            yield Finding(
                Level.WARN, "our record names no address, so nobody finds us", "give p2p.advertise.ip, or p2p.nat"
            )
        elif usual is not None and usual != ip and _is_public(usual):
            yield Finding(
                Level.WARN,
                f"our record says {ip}, but {seen[usual]} peers see us at {usual}",
                f"give --p2p.advertise.ip={usual} if that is right",
            )
        elif tcp:
            yield Finding(Level.OK, f"our record says {ip}, TCP port {tcp}, UDP port {discovery['udp']}")
        if is_reached is False:
            yield Finding(
                Level.WARN,
                f"{ip} port {tcp} takes no connection from here",
                "open the TCP port in the firewall and forward it, or give p2p.nat (a router may refuse its own side)",
            )
    if found["inbound_ever"]:
        yield Finding(Level.OK, f"{found['inbound_ever']} connections have come in from other machines")
    else:
        yield Finding(
            Level.NOTE,
            "no other machine has connected to us since the start",
            "if that stays so, the TCP port is closed or forwarded nowhere",
        )


def _discovery(found: Diagnosis) -> Iterator[Finding]:
    discovery = found["discovery"]
    if discovery is None:
        yield Finding(Level.NOTE, "discovery is off: only static peers, and those that find us, are peers")
        return
    nodes = discovery["nodes"]
    if not nodes["nodes"]:
        yield Finding(
            Level.FAULT if not _connected(found) else Level.WARN,
            "discovery knows no node at all",
            "check p2p.bootnodes and p2p.netrestrict, and that UDP may leave and come back",
        )
        return
    others = f"{nodes['other_chain']} of other chains, {nodes['no_chain']} of none"
    text = f"discovery knows {nodes['nodes']} nodes, {nodes['live']} alive: {nodes['ours']} of our chain, {others}"
    if nodes["ours"]:
        yield Finding(Level.OK, text)
    elif nodes["live"]:
        yield Finding(Level.WARN, text, f"are these the bootnodes of chain {found['chain_id']}? see p2p.bootnodes")
    else:
        yield Finding(Level.WARN, text, "UDP is blocked, or p2p.bootnodes are gone: nobody answers")
    drops = {reason: count for reason, count in discovery["drops"].items() if count}
    if drops:
        advice = "p2p.netrestrict keeps these out" if RESTRICTED in drops else ""
        yield Finding(Level.NOTE, f"datagrams that went no further: {_counts(drops)}", advice)


def _dialling(found: Diagnosis) -> Iterator[Finding]:
    problems = found["dial_problems"]
    for peer in found["static_missing"]:
        why = problems.get(peer, "not dialled yet")
        yield Finding(Level.WARN, f"static peer {peer} is missing: {why}", _advice_on_dialling(why))
    rest = [(peer, text) for peer, text in problems.items() if peer not in found["static_missing"]]
    if rest:
        restricted = sum("p2p.netrestrict" in text for _, text in rest)
        advice = f"{restricted} of them for p2p.netrestrict alone" if restricted else ""
        yield Finding(Level.NOTE, f"{len(rest)} peers could not be reached of late", advice)
        yield from (Finding(Level.NOTE, f"{peer}: {text}") for peer, text in rest[-MOST_NAMED:])


def _partings(found: Diagnosis) -> Iterator[Finding]:
    """Bans issued, and received as far as that can be seen."""
    bans = found["bans"]
    if bans:
        level = Level.FAULT if len(bans) >= max(1, _connected(found)) else Level.WARN
        longest = max(bans.values())
        yield Finding(
            level,
            f"we have banned {len(bans)} peers, the last of them for {longest:.0f} s more",
            "look at their scores (opp2p_peers); opp2p_unblockPeer lifts a ban; lower p2p.ban.threshold, or give "
            "--p2p.ban.peers=false",
        )
    if found["blocked"]:
        yield Finding(Level.NOTE, f"operators have blocked {found['blocked']} peers, addresses or networks")
    short = [one for one in found["departed"] if one["lasted"] < SHORT_SECONDS]
    if short:
        reasons = Counter(one["why"] for one in short)
        yield Finding(
            Level.WARN if len(short) > _connected(found) else Level.NOTE,
            f"{len(short)} connections ended within {SHORT_SECONDS:.0f} s: {_counts(reasons)}",
            "peers that hang up at once are full, follow another chain, or have banned us",
        )


def _peers(found: Diagnosis) -> Iterator[Finding]:
    count, low = _connected(found), found["low"]
    text = f"{count} peers ({found['inbound']} came, {found['outbound']} dialled), {low} to {found['high']} are wanted"
    known = f"{found['known']} are known, {found['dialable']} with an address"
    if not count:
        sources = "p2p.static" if found["discovery"] is None else "p2p.bootnodes, or p2p.static"
        advice = f"dialling them fails, see above: give reachable ones by {sources}"
        yield Finding(Level.FAULT, f"no peers; {known}", advice if found["dialable"] else f"give some by {sources}")
    else:
        yield Finding(Level.OK if count >= low else Level.NOTE, f"{text}; {known}")


def _mesh(found: Diagnosis) -> Iterator[Finding]:
    gossip = found["gossip"]
    mesh, on_topic = gossip["meshes"][gossip["topic"]], gossip["topics"][gossip["topic"]]
    text = f"{on_topic} peers are on {gossip['topic']}, {mesh} of them in our mesh"
    if not _connected(found):
        return
    if not on_topic:
        yield Finding(Level.FAULT, text, "are the peers of this chain and fork?")
    elif mesh < gossip["low"]:
        yield Finding(Level.NOTE, f"{text}: below {gossip['low']}, so own blocks go to all peers of the topic")
    else:
        yield Finding(Level.OK, text)


def _blocks(found: Diagnosis) -> Iterator[Finding]:
    gossip = found["gossip"]
    if gossip["signer"] is None:
        yield Finding(
            Level.FAULT,
            "no unsafe block signer is known: blocks of peers are ignored",
            "it is read from the SystemConfig contract on L1: is L1 reached, and l1_system_config_address right?",
        )
    own = gossip["own_signer"]
    if own is not None and own != gossip["signer"]:
        yield Finding(Level.FAULT, f"p2p.sequencer.key is that of {own}, L1 names {gossip['signer']}")
    if own is not None:
        yield Finding(Level.OK if gossip["published"] else Level.NOTE, f"{gossip['published']} blocks were published")
    refused = {reason: count for reason, count in gossip["refused"].items() if reason != "seen"}
    if refused:
        yield Finding(Level.WARN, f"blocks refused: {_counts(refused)}", _advice_on(refused))
    ago = gossip["accepted_ago"]
    if ago is None or ago > QUIET_SECONDS:
        told = "no block of peers since the start" if ago is None else f"the last block of peers came {ago:.0f} s ago"
        yield Finding(Level.NOTE if own is not None else Level.WARN, told)
    else:
        yield Finding(Level.OK, f"{gossip['accepted']} blocks of peers, the last {ago:.1f} s ago")


def _advice_on_dialling(why: str) -> str:
    advice = {
        "p2p.netrestrict": "add its network to p2p.netrestrict",
        "banned": "opp2p_unblockPeer lifts the ban",
        "blocked": "an operator has blocked it: see opp2p_unblockPeer, opp2p_unblockAddr and opp2p_unblockSubnet",
        "the other end is": "its key has changed: correct the peer id in p2p.static",
        "cannot be resolved": "correct the host name in p2p.static, or this machine's name servers",
        "refused": "is it running, and the port in p2p.static right?",
        "no answer": "is it running, and its TCP port open to us?",
    }
    return next((text for sign, text in advice.items() if sign in why), "")


def _advice_on(refused: Mapping[str, int]) -> str:
    advice = {
        "wrong_signer": "the signer may have changed on L1 (l1.runtime-config-reload-interval)",
        "too_old": "check this machine's clock, and whether blocks come late (p2p.gossip.timestamp.threshold)",
        "future": "check this machine's clock",
        "block_hash": "a fork may be missing here: compare the rollup config with the network's",
        "blob_gas_used": "a fork may be missing here: compare the rollup config with the network's",
    }
    return advice.get(max(refused, key=lambda reason: refused[reason]), "")


def _connected(found: Diagnosis) -> int:
    return int(found["inbound"]) + int(found["outbound"])


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {reason}" for reason, count in ordered[:MOST_NAMED])


def _host(multiaddr: str) -> str:
    return multiaddr.split("/")[2] if multiaddr.count("/") >= 2 else multiaddr


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False
