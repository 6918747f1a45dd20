"""Options of a remote signer, a DA server and a conductor, changed in a sequencing node that runs [LIF35]."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.node.setup.reload import is_reloaded
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.tools.devnet.files import SIGNER_KEY
from tests.support.chains.local_chain import LocalChain
from tests.support.engine.fake_conductor import FakeConductor
from tests.support.engine.remote_signers import SignerServer, TlsSetUp
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, RpcError, call, unready_reasons, wait_for
from tests.support.processes.reloaded_node import ReloadedNode
from tests.support.servers.loopback import free_port, own_address
from tests.support.servers.recording_proxy import RecordingProxy
from tests.support.servers.threads import in_thread

ROLES = ("altda", "conductor", "signer")
reloaded: set[str] = set()


class Servers(NamedTuple):
    """Two of each kind that the node may use, the second signer with TLS."""

    node: ReloadedNode
    da: tuple[RecordingProxy, RecordingProxy]
    conductors: tuple[FakeConductor, FakeConductor]
    signers: tuple[SignerServer, SignerServer]
    tls: TlsSetUp

    def take_over(self, roles: list[str], **changes: object) -> None:
        """Reload these options, for which processes restart."""
        settings = {name.replace("__", "-").replace("_", "."): value for name, value in changes.items()}
        result = self.node.take_over(settings)
        assert (set(result["changed"]), result["restarted"]) == (set(settings), roles)
        reloaded.update(settings)


@pytest.fixture(scope="module")
def servers(module_leftovers: Leftovers) -> Iterator[Servers]:
    with LocalChain(module_leftovers, "--altda") as chain, ExitStack() as stack:
        words = ("--port", str(port := free_port()))
        stack.enter_context(Program(module_leftovers, "rollup_node.tools.devnet.da_server", *words))
        url = f"http://127.0.0.1:{port}"
        da = [stack.enter_context(in_thread(RecordingProxy(url).running())) for _ in range(2)]
        conductors = [stack.enter_context(in_thread(FakeConductor().serving())) for _ in range(2)]
        tls = TlsSetUp(module_leftovers.folder)
        signers = [SignerServer(LocalSigner(SIGNER_KEY.secret)) for _ in range(2)]
        for signer, context in zip(signers, (None, tls.server_context()), strict=True):
            stack.enter_context(in_thread(signer.running(context)))
        settings = {
            "p2p.sequencer.key.path": None,
            "signer.endpoint": signers[0].endpoint,
            "signer.address": SIGNER_KEY.address.hex(),
            "signer.tls.enabled": False,
            "altda.da-server": da[0].url,
            "conductor.rpc": conductors[0].url,
        }
        flags = ("--altda.enabled", "--conductor.enabled", f"--rpc.addr={own_address()}", f"--rpc.port={free_port()}")
        dashed = {name.replace("-", "__").replace(".", "_"): value for name, value in settings.items()}
        node = ReloadedNode(chain, module_leftovers.folder, *flags, **dashed)
        stack.enter_context(node.engine)
        stack.enter_context(node.program)
        node.program.wait_for_line(' processes are ready"')
        stack.enter_context(chain.batcher(node.rpc, da="calldata", da_server=url))
        yield Servers(node, (da[0], da[1]), (conductors[0], conductors[1]), (signers[0], signers[1]), tls)


def grows(count: Callable[[], int]) -> None:
    before = count()
    wait_for(lambda: count() > before, "more of them")


def with_frames_twice(data: bytes) -> bytes:
    """Return an input of another commitment from which the same blocks are derived: a frame is taken once."""
    return data + data[1:]


def test_each_option_acts_after_its_reload(servers: Servers) -> None:
    node, (signer, other_signer), (da, other_da) = servers.node, servers.signers, servers.da
    conductor, other_conductor = servers.conductors

    def status() -> Any:
        return call(node.rpc, "optimism_syncStatus")

    def is_started() -> bool:
        with suppress(RpcError):
            call(node.rpc, "admin_startSequencer", status()["unsafe_l2"]["hash"])
            return True
        return False

    def start() -> None:
        """Start the sequencer as a conductor does, after a restart of the engine process too [CND6, CND8]."""
        wait_for(is_started, "the sequencer is started")

    start()
    wait_for(lambda: status()["safe_l2"]["number"] > 0, "blocks are derived from the DA server")
    # The signer.
    servers.take_over(["p2p"], signer_header=["X-Key=5"])
    wait_for(lambda: any(headers.get("X-Key") == "5" for headers in signer.headers), "the header")
    files = {f"signer_tls_{name}": str(servers.tls.directory / file) for name, file in TLS_FILES.items()}
    servers.take_over(["p2p"], signer_endpoint=other_signer.endpoint, signer_tls_enabled=True, **files)
    wait_for(lambda: "node" in other_signer.client_names, "the certificate")
    grows(lambda: sum(one["method"] == "opsigner_signBlockPayload" for one in other_signer.calls))
    servers.take_over(["p2p"], signer_address="11" * 20)
    node.program.wait_for_line("code=BLOCK-SIGNER")
    servers.take_over(["p2p"], signer_address=SIGNER_KEY.address.hex())
    # The DA server.
    grows(lambda: len(da.requests))
    servers.take_over(["blobs"], altda_da__server=other_da.url)
    grows(lambda: len(other_da.requests))
    other_da.delay = 0.6
    servers.take_over(["blobs"], altda_get__timeout="300ms")
    wait_for(lambda: any("no answer within 0.3 s" in text for text in unready_reasons(node.rpc)), "the timeout")
    assert other_da.most <= 1, "by default there is one request at a time"
    servers.take_over(["blobs"], altda_max__concurrent__da__requests=3, altda_get__timeout=None)
    other_da.delay = 4.0
    wait_for(lambda: other_da.most >= 3, "inputs are read ahead, more than where one gives way to another")
    other_da.delay, other_da.change = 0.0, with_frames_twice
    wait_for(lambda: any("do not match commitment" in text for text in unready_reasons(node.rpc)), "inputs are checked")
    servers.take_over(["blobs"], altda_verify__on__read=False)
    grows(lambda: status()["safe_l2"]["number"])
    # The conductor.
    grows(lambda: conductor.count("commitUnsafePayload"))
    servers.take_over(["engine"], conductor_rpc=other_conductor.url)
    start()
    grows(lambda: other_conductor.count("commitUnsafePayload"))
    servers.take_over(["engine"], conductor_rpc__timeout="250ms")
    start()
    other_conductor.hold.clear()
    wait_for(lambda: "no answer within 0.25 s" in node.program.out, "the timeout of the conductor")
    other_conductor.hold.set()
    wait_for(lambda: node.late_blocks < 2, "the sequencer keeps up")
    assert "process died" not in node.program.out and "Traceback" not in node.program.out
    assert reloaded == {name for name, option in OPTIONS.items() if is_reloaded(option) and name.startswith(ROLES)}


TLS_FILES = {"ca": "ca.crt", "cert": "node.crt", "key": "node.key"}
