"""Every channel: who sends what to whom, by which pattern. The README's diagram is generated from it."""

from types import ModuleType
from typing import Any

from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.derivation import tasks as derivation_tasks
from rollup_node.stages.l1 import tasks as l1_tasks
from rollup_node.stages.messages import base, blobs, control, derivation, engine, interop, l1, p2p


def _status(server: str, *readers: str, states: Any) -> Channel:
    return Channel(f"status.{server}", Pattern.STATUS, server, readers, down=states)


def _requests(name: str, *clients: str, requests: Any, responses: Any) -> Channel:
    """Return a channel whose name begins with its server."""
    return Channel(name, Pattern.REQUEST, name.partition(".")[0], clients, down=responses, up=requests)


def _work(dispatcher: str, tasks: ModuleType) -> Channel:
    return Channel(f"work.{dispatcher}", Pattern.WORK, dispatcher, ("compute",), down=tasks.Task, up=tasks.Result)


_SOURCE = base.Endpoints | base.QueueLength | base.Health

CHANNELS: tuple[Channel, ...] = (
    _status(
        "l1",
        "derivation",
        "engine",
        "p2p",
        "interop",
        "rpc",
        states=l1.L1Heads | l1.L1Proof | l1.RuntimeConfigs | _SOURCE,
    ),
    _requests(
        "l1.blocks", "derivation", requests=l1.L1BlocksRequest, responses=l1.L1BlockResponse | l1.L1BlockUnavailable
    ),
    _requests(
        "l1.origins",
        "engine",
        "interop",
        requests=l1.L1BlocksRequest | l1.L1RefsRequest,
        responses=l1.L1BlockResponse | l1.L1BlockUnavailable | l1.L1RefsResponse,
    ),
    _status("blobs", "rpc", states=_SOURCE),
    _requests(
        "blobs.contents",
        "derivation",
        requests=blobs.BlobsRequest | blobs.InputRequest,
        responses=blobs.BlobsResponse
        | blobs.BlobsUnavailable
        | blobs.InputResponse
        | blobs.InputTooLarge
        | blobs.InputUnavailable,
    ),
    _status(
        "derivation",
        "engine",
        "rpc",
        states=derivation.DerivationStatus | derivation.Drops | derivation.DropCounts | base.QueueLength | base.Health,
    ),
    _requests(
        "derivation.drops", "engine", "rpc", requests=derivation.DropsRequest, responses=derivation.DropsResponse
    ),
    _requests(
        "engine.blocks",
        "derivation",
        requests=engine.StartRequest | engine.AttributesReady | engine.AttributesAhead | engine.L2BlocksRequest,
        responses=engine.PipelineStart | engine.AttributesResult | engine.L2BlocksResponse,
    ),
    _status(
        "engine",
        "derivation",
        "interop",
        "rpc",
        states=engine.EngineStatus | engine.Halting | engine.ForkDoubts | _SOURCE,
    ),
    _requests(
        "engine.control",
        "interop",
        "rpc",
        requests=control.StartSequencerRequest
        | control.StopSequencerRequest
        | control.OverrideLeaderRequest
        | control.SetRecoverModeRequest
        | control.SetSdmOptInRequest
        | control.ResetDerivationRequest
        | control.OutputRequest
        | control.SafeHeadRequest
        | control.L1AtSafeHeadRequest
        | control.PostUnsafePayloadRequest
        | control.OpenBlockRequest
        | control.SealBlockRequest
        | control.CommitBlockRequest,
        responses=control.ControlResponse | control.OutputResponse | control.SafeHeadResponse | control.BuildResponse,
    ),
    _requests(
        "engine.interop",
        "rpc",
        requests=interop.InteropEventsRequest | interop.InteropRequest,
        responses=interop.InteropEvents | interop.InteropResponse,
    ),
    _requests("engine.payloads", "p2p", requests=p2p.PayloadRequest, responses=p2p.PayloadResponse),
    _requests(
        "p2p.blocks",
        "engine",
        requests=p2p.UnsafeBlocksRequest | p2p.LatestBlocksRequest | p2p.PublishRequest,
        responses=p2p.UnsafeBlock | p2p.LatestBlocksResponse | p2p.PublishResponse,
    ),
    _status("interop", "engine", "rpc", states=interop.Verdicts | base.Health),
    _requests("interop.rounds", "rpc", requests=interop.RoundRequest, responses=interop.RoundResponse),
    _status("p2p", "rpc", states=p2p.PeerStatus | base.Health),
    _requests("p2p.control", "rpc", requests=p2p.PeerRequest | p2p.PublishSignedRequest, responses=p2p.PeerResponse),
    _work("derivation", derivation_tasks),
    _work("l1", l1_tasks),
    _work("blobs", blob_tasks),
)
