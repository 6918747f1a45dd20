"""Every channel: who sends what to whom, by which pattern. The README's diagram is generated from it."""

from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.derivation import tasks as derivation_tasks
from rollup_node.stages.l1 import tasks as l1_tasks
from rollup_node.stages.messages import base, blobs, control, derivation, engine, interop, l1, p2p

CHANNELS: tuple[Channel, ...] = (
    Channel(
        "status.l1",
        Pattern.STATUS,
        "l1",
        ("derivation", "engine", "p2p", "rpc"),
        down=l1.L1Heads | l1.RuntimeConfig | base.Endpoints | base.QueueLength | base.Health,
    ),
    Channel(
        "l1.blocks",
        Pattern.REQUEST,
        "l1",
        ("derivation",),
        up=l1.L1BlocksRequest,
        down=l1.L1BlockResponse | l1.L1BlockUnavailable,
    ),
    Channel(
        "l1.origins",
        Pattern.REQUEST,
        "l1",
        ("engine",),
        up=l1.L1BlocksRequest | l1.L1RefsRequest,
        down=l1.L1BlockResponse | l1.L1BlockUnavailable | l1.L1RefsResponse,
    ),
    Channel(
        "status.blobs",
        Pattern.STATUS,
        "blobs",
        ("rpc",),
        down=base.Endpoints | base.QueueLength | base.Health,
    ),
    Channel(
        "blobs.contents",
        Pattern.REQUEST,
        "blobs",
        ("derivation",),
        up=blobs.BlobsRequest | blobs.InputRequest,
        down=blobs.BlobsResponse
        | blobs.BlobsUnavailable
        | blobs.InputResponse
        | blobs.InputTooLarge
        | blobs.InputUnavailable,
    ),
    Channel(
        "status.derivation",
        Pattern.STATUS,
        "derivation",
        ("engine", "rpc"),
        down=derivation.DerivationStatus | derivation.Drops | derivation.DropCounts | base.QueueLength | base.Health,
    ),
    Channel(
        "derivation.drops",
        Pattern.REQUEST,
        "derivation",
        ("engine", "rpc"),
        up=derivation.DropsRequest,
        down=derivation.DropsResponse,
    ),
    Channel(
        "engine.blocks",
        Pattern.REQUEST,
        "engine",
        ("derivation",),
        up=engine.StartRequest | engine.AttributesReady | engine.AttributesAhead | engine.L2BlocksRequest,
        down=engine.PipelineStart | engine.AttributesResult | engine.L2BlocksResponse,
    ),
    Channel(
        "status.engine",
        Pattern.STATUS,
        "engine",
        ("derivation", "rpc"),
        down=engine.EngineStatus | engine.Halting | engine.ForkDoubts | base.Endpoints | base.QueueLength | base.Health,
    ),
    Channel(
        "engine.control",
        Pattern.REQUEST,
        "engine",
        ("rpc",),
        up=control.StartSequencerRequest
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
        down=control.ControlResponse | control.OutputResponse | control.SafeHeadResponse | control.BuildResponse,
    ),
    Channel(
        "engine.interop",
        Pattern.REQUEST,
        "engine",
        ("rpc",),
        up=interop.InteropEventsRequest | interop.InteropRequest,
        down=interop.InteropEvents | interop.InteropResponse,
    ),
    Channel("engine.payloads", Pattern.REQUEST, "engine", ("p2p",), up=p2p.PayloadRequest, down=p2p.PayloadResponse),
    Channel(
        "p2p.blocks",
        Pattern.REQUEST,
        "p2p",
        ("engine",),
        up=p2p.UnsafeBlocksRequest | p2p.LatestBlocksRequest | p2p.PublishRequest,
        down=p2p.UnsafeBlock | p2p.LatestBlocksResponse | p2p.PublishResponse,
    ),
    Channel("status.p2p", Pattern.STATUS, "p2p", ("rpc",), down=p2p.PeerStatus | base.Health),
    Channel(
        "p2p.control",
        Pattern.REQUEST,
        "p2p",
        ("rpc",),
        up=p2p.PeerRequest | p2p.PublishSignedRequest,
        down=p2p.PeerResponse,
    ),
    Channel(
        "work.derivation",
        Pattern.WORK,
        "derivation",
        ("compute",),
        down=derivation_tasks.Task,
        up=derivation_tasks.Result,
    ),
    Channel("work.l1", Pattern.WORK, "l1", ("compute",), down=l1_tasks.Task, up=l1_tasks.Result),
    Channel("work.blobs", Pattern.WORK, "blobs", ("compute",), down=blob_tasks.Task, up=blob_tasks.Result),
)
