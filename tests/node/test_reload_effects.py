"""Each option that a reload takes over, changed in a sequencing node that runs: what is seen of it, and no block lost.

[LIF35] tests/node/test_reloaded_node.py has others with an effect of their own, and what is refused."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.node.setup.reload import is_reloaded
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.files import SIGNER_KEY
from tests.support.chains.local_chain import LocalChain
from tests.support.p2p.blocks import block, signed
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import RpcError, call, http_get, unready_reasons, wait_for
from tests.support.processes.reloaded_node import ReloadedNode
from tests.support.servers.loopback import free_port, own_address
from tests.support.servers.recording_proxy import Recorded, RecordingProxy
from tests.support.servers.threads import in_thread


class Rig(NamedTuple):
    """The node, what it asks L1 and two beacon nodes, and its ports."""

    node: ReloadedNode
    l1: RecordingProxy
    beacon: RecordingProxy
    other_beacon: RecordingProxy
    engine: RecordingProxy
    p2p_port: int
    metrics: str

    def heal(self) -> None:
        """Have all endpoints answer at once."""
        for proxy in (self.l1, self.beacon, self.engine):
            proxy.delay, proxy.refused = 0.0, "-"

    def status(self) -> dict[str, Any]:
        result: dict[str, Any] = call(self.node.rpc, "optimism_syncStatus")
        return result

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric of the l1 process, 0 before its first one."""
        listed = ",".join(f'{label}="{value}"' for label, value in labels.items())
        start = f"op_node_default_{name}{{{listed}}} "
        lines = http_get(self.metrics)[1].splitlines()
        return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))

    def publish_old_block(self) -> str:
        """Have the node gossip a signed block of 20 s ago, as another sequencer does [RPC65]; return its error."""
        payload = block(timestamp=int(time.time()) - 20)
        signature = to_hex(signed(payload, signer=LocalSigner(SIGNER_KEY.secret))[:65])
        try:
            call(
                self.node.rpc, "opstack_publishBlockV1", {"envelope": envelope_to_json(payload), "signature": signature}
            )
        except RpcError as error:
            return error.message
        return ""


@pytest.fixture(scope="module")
def rig(module_leftovers: Leftovers) -> Iterator[Rig]:
    """Return a chain whose batches are in blobs; the node's addresses are those of proxies.

    Its file has `p2p.netrestrict`, which a variable of all tests would override."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.delenv("NODE_P2P_NETRESTRICT")
        chain = stack.enter_context(LocalChain(module_leftovers))
        proxies = [
            stack.enter_context(in_thread(RecordingProxy(url).running()))
            for url in (chain.l1, chain.beacon, chain.beacon, chain.engine)
        ]
        l1, beacon, other, engine = proxies
        ports = free_port(), free_port(), free_port()
        words = [f"--{name}={own_address()}" for name in ("rpc.addr", "p2p.listen.ip", "metrics.addr")]
        words += [f"--rpc.port={ports[0]}", f"--p2p.listen.tcp={ports[1]}", f"--metrics.port={ports[2]}"]
        words += ["--metrics.enabled", "--experimental.sequencer-api"]
        settings = {"l1": l1.url, "l1_beacon": beacon.url, "p2p_netrestrict": ["127.0.0.0/8"]}
        node = ReloadedNode(chain, module_leftovers.folder, *words, **settings)
        stack.enter_context(node.engine)
        node.engine.redirect(engine.url)
        stack.enter_context(node.program)
        node.program.wait_for_line(' processes are ready"')
        stack.enter_context(chain.batcher(node.rpc))
        result = Rig(node, l1, beacon, other, engine, ports[1], f"http://{own_address()}:{ports[2]}/metrics")
        wait_for(lambda: result.status()["safe_l2"]["number"] > 0, "blocks are derived from blobs")
        yield result


def pauses(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def polls_less_often(rig: Rig, since: float) -> bool:
    """The L1 head is asked for every 2 s in place of 0.2 s; polls may come later, never earlier."""
    times = rig.l1.calls(since, "eth_getBlockByNumber", "latest")
    return len(times) > 2 and min(pauses(times[-3:])) > 1.5


def epochs_less_often(rig: Rig, since: float) -> bool:
    times = rig.l1.calls(since, "eth_getBlockByNumber", "finalized")
    return len(times) > 2 and min(pauses(times[-3:])) > 2.0


def receipts_requests(rig: Rig, since: float) -> list[Recorded]:
    """Return the requests for receipts of single transactions; L1 gets another deposit, for which they are needed."""
    rig.node.chain.deposit()
    method = "eth_getTransactionReceipt"
    return [
        item for item in rig.l1.requests if item.at > since and any(call["method"] == method for call in item.calls)
    ]


def asks_for_raw_receipts(rig: Rig, since: float) -> bool:
    rig.node.chain.deposit()
    return bool(rig.l1.calls(since, "debug_getRawReceipts"))


def asks_for_receipts_in_batches(rig: Rig, since: float) -> bool:
    return any(len(request.calls) > 1 for request in receipts_requests(rig, since))


def asks_for_receipts_one_by_one(rig: Rig, since: float) -> bool:
    requests = receipts_requests(rig, since)
    assert all(len(request.calls) == 1 for request in requests)
    return len(requests) > 20


def drops_l1_blocks(rig: Rig, since: float) -> bool:
    """By default 900 are kept, more than this L1 has."""
    if rig.metric("l1_source_cache_add", evicted="true", type="blocks") < 3:
        return False
    assert rig.metric("l1_source_cache_size", type="blocks") <= CACHED_BLOCKS
    return True


def no_faster_than_the_limit(rig: Rig, since: float) -> bool:
    """With batches of one call the bucket has room for one."""
    times = [request.at for request in rig.l1.requests if request.at > since]
    return len(times) > 12 and times[-1] - times[-13] > 12 / 4 - 0.5


def is_derived_later(rig: Rig, since: float) -> bool:
    status = rig.status()
    return bool(0 < status["current_l1"]["number"] <= status["head_l1"]["number"] - 5)


def says(text: str) -> Callable[[Rig, float], bool]:
    """Return whether `/readyz` has a reason with that text."""
    return lambda rig, since: any(text in reason for reason in unready_reasons(rig.node.rpc))


def counts_l1_blocks(rig: Rig, since: float) -> bool:
    """Without blobs derivation stands; 12 blocks are allowed by default."""
    rig.beacon.refused = "blob"
    return any(re.search(r"L1 blocks behind.*; the limit is 1\b", reason) for reason in unready_reasons(rig.node.rpc))


def waits_for_the_safe_head(rig: Rig, since: float) -> bool:
    for _ in range(10):
        status = rig.status()
        if status["unsafe_l2"]["number"] > status["safe_l2"]["number"] + 1:
            return False
        time.sleep(0.2)
    return True


def allows_origin(rig: Rig, since: float) -> bool:
    request = Request(rig.node.rpc + "/healthz", headers={"Origin": "http://page.example"})
    with urlopen(request, timeout=30) as response:
        return bool(response.headers.get("Access-Control-Allow-Origin") == "http://page.example")


def refuses_host(rig: Rig, since: float) -> bool:
    with socket.create_connection((own_address(), int(rig.node.rpc.rpartition(":")[2])), 30) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: page.example\r\nContent-Length: 2\r\n\r\n{}")
        return b" 403 " in client.recv(200)


def has_header(rig: Rig, since: float) -> bool:
    return any(request.headers.get("X-Key") == "5" for request in rig.beacon.requests if request.at > since)


def asks_the_fallback(rig: Rig, since: float) -> bool:
    rig.beacon.refused = "blob"
    return any("blob" in request.path for request in rig.other_beacon.requests)


def blob_paths(rig: Rig, since: float) -> list[str]:
    return [request.path for request in rig.beacon.requests if request.at > since and "/blob" in request.path]


def asks_for_all(rig: Rig, since: float) -> bool:
    paths = blob_paths(rig, since)
    return bool(paths) and not any("?" in path for path in paths[-1:])


def asks_for_other_slots(rig: Rig, since: float) -> bool:
    """Slots of 2 s in place of 1 s: half of the number."""
    slots = [int(path.partition("?")[0].rpartition("/")[2]) for path in blob_paths(rig, since)]
    head = rig.status()["head_l1"]["number"]
    return bool(slots) and slots[-1] < head * 0.8


def reads_the_runtime_config(rig: Rig, since: float) -> bool:
    return len(rig.l1.calls(since, "eth_getStorageAt")) + len(rig.l1.calls(since, "eth_getProof")) > 4


def believes(rig: Rig, since: float) -> bool:
    """A trusted endpoint is asked for no proof."""
    return bool(rig.l1.calls(since, "eth_getStorageAt")) and not rig.l1.calls(since, "eth_getProof")


def refuses_loopback(rig: Rig, since: float) -> bool:
    with socket.create_connection((own_address(), rig.p2p_port), 30) as client:
        client.settimeout(30)
        try:
            return client.recv(100) == b""
        except ConnectionResetError:
            return True


def refuses_old_blocks(rig: Rig, since: float) -> bool:
    return "too_old: 2" in rig.publish_old_block()


def one_at_a_time(rig: Rig, since: float) -> bool:
    """While each answer takes longer than the pause between two polls."""
    if not rig.l1.delay:
        rig.l1.delay, rig.l1.most = 0.3, 0
    assert rig.l1.most <= 1
    return len([request for request in rig.l1.requests if request.at > since]) > 20


def gives_the_engine_less_time(rig: Rig, since: float) -> bool:
    rig.engine.delay = 0.6
    return any("no answer within 0.3 s" in reason for reason in unready_reasons(rig.node.rpc))


class Effect(NamedTuple):
    """Options that change together, what is seen of them, one after the other, and the processes that restart."""

    options: dict[str, object]
    roles: tuple[str, ...]
    seen: tuple[Callable[[Rig, float], bool], ...]


CACHED_BLOCKS = 4
EFFECTS = [
    Effect(
        {
            "l1.http-poll-interval": "2s",
            "l1.epoch-poll-interval": "3s",
            "rpc.corsdomain": ["http://page.example"],
            "rpc.vhosts": ["node.example"],
            "rpc.ready-safe-age": "1ms",
            "rpc.ready-l1-lag": 1,
        },
        ("l1", "rpc"),
        (polls_less_often, epochs_less_often, allows_origin, refuses_host, says("safe head"), counts_l1_blocks),
    ),
    Effect(
        {
            "l1.rpc-rate-limit": 4,
            "l1.rpc-max-batch-size": 1,
            "l1.beacon-header": "X-Key: 5",
            "l1.beacon.fetch-all-sidecars": True,
        },
        ("l1", "blobs"),
        (no_faster_than_the_limit, has_header, asks_for_all),
    ),
    Effect(
        {"l1.rpckind": "basic", "p2p.netrestrict": ["192.0.2.0/24"]},
        ("l1", "p2p"),
        (asks_for_receipts_in_batches, refuses_loopback),
    ),
    Effect(
        {
            "l1.rpckind": "basic",
            "l1.rpc-max-batch-size": 1,
            "l1.beacon.slot-duration-override": 2,
            "l1.beacon-fallbacks": "{0.other_beacon.url}",
        },
        ("l1", "blobs"),
        (asks_for_receipts_one_by_one, asks_for_other_slots, asks_the_fallback),
    ),
    Effect({"l1.cache-size": CACHED_BLOCKS, "l1.max-concurrency": 1}, ("l1",), (drops_l1_blocks, one_at_a_time)),
    Effect(
        {"verifier.l1-confs": 5, "l1.rpckind": "debug_geth", "p2p.gossip.timestamp.threshold": "7s"},
        ("l1", "p2p", "rpc"),
        (is_derived_later, asks_for_raw_receipts, refuses_old_blocks),
    ),
    Effect(
        {
            "l1.trustrpc": True,
            "l1.runtime-config-reload-interval": "400ms",
            "sequencer.max-safe-lag": 1,
            "l2.engine-rpc-timeout": "300ms",
        },
        ("l1", "engine"),
        (reads_the_runtime_config, believes, waits_for_the_safe_head, gives_the_engine_less_time),
    ),
]
ELSEWHERE = {
    *("log.level", "l1", "l1.beacon", "p2p.static", "p2p.sequencer.key.path"),
    *("rpc.ready-unsafe-age", "rpc.jwt-secret", "l2.jwt-secret", "l2.jwt-secret-encoded", "p2p.sequencer.key"),
    *("p2p.ban.duration", "p2p.ban.peers", "p2p.ban.threshold", "p2p.bootnodes"),
}
"""With a test of their own in tests/node/test_reloaded_node.py."""


def test_every_option_that_is_taken_over_is_reloaded_somewhere() -> None:
    here = {name for effect in EFFECTS for name in effect.options}
    rest = {name for name, option in OPTIONS.items() if is_reloaded(option)} - here - ELSEWHERE
    assert {name.partition(".")[0] for name in rest} == {"signer", "altda", "conductor"}, (
        "tests/node/test_reload_roles.py"
    )


@pytest.fixture(autouse=True)
def no_block_is_lost(rig: Rig) -> Iterator[None]:
    """A sequencer that loses a block is late by one more."""
    wait_for(lambda: rig.node.late_blocks < 2, "the sequencer keeps up")
    yield
    rig.heal()
    wait_for(lambda: rig.node.late_blocks < 2, "the sequencer keeps up")
    wait_for(lambda: not unready_reasons(rig.node.rpc), "the node is ready")
    assert "process died" not in rig.node.program.out and "Traceback" not in rig.node.program.out


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: "+".join(effect.options))
def test_an_option_acts_after_a_reload(rig: Rig, effect: Effect) -> None:
    values = {name: value.format(rig) if isinstance(value, str) else value for name, value in effect.options.items()}
    before = {name: rig.node.settings.get(name) for name in values}
    result = rig.node.take_over(values)
    assert (set(result["changed"]), result["restarted"]) == (set(values), list(effect.roles))
    since = time.monotonic()
    for condition in effect.seen:
        wait_for(partial(condition, rig, since), "the new value acts")
    rig.heal()
    rig.node.take_over(before)


def test_a_block_of_20_s_ago_is_published_by_default(rig: Rig) -> None:
    wait_for(lambda: not rig.publish_old_block(), "it is published")
