"""Every channel: who sends what to whom, by which pattern. The README's diagram is generated from it."""

from rollup_node.ipc.channels import Channel, Pattern
from rollup_node.stages import messages as m
from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.derivation import tasks as derivation_tasks
from rollup_node.stages.l1 import tasks as l1_tasks

CHANNELS: tuple[Channel, ...] = (
    Channel(
        "status.l1",
        Pattern.STATUS,
        "l1",
        ("derivation", "engine", "p2p", "rpc"),
        down=m.L1Heads | m.RuntimeConfig | m.Health,
    ),
    Channel(
        "l1.blocks",
        Pattern.ASK,
        "l1",
        ("derivation",),
        up=m.WantL1Blocks,
        down=m.L1BlockFound | m.L1BlockMissing,
    ),
    Channel(
        "l1.origins",
        Pattern.ASK,
        "l1",
        ("engine",),
        up=m.WantL1Blocks | m.WantL1Refs,
        down=m.L1BlockFound | m.L1BlockMissing | m.L1RefsFound,
    ),
    Channel("status.blobs", Pattern.STATUS, "blobs", ("rpc",), down=m.Health),
    Channel(
        "blobs.contents",
        Pattern.ASK,
        "blobs",
        ("derivation",),
        up=m.WantBlobs,
        down=m.BlobsFound | m.BlobsMissing,
    ),
    Channel(
        "status.derivation",
        Pattern.STATUS,
        "derivation",
        ("engine", "rpc"),
        down=m.DerivationStatus | m.Drops | m.Health,
    ),
    Channel(
        "derivation.drops",
        Pattern.ASK,
        "derivation",
        ("engine", "rpc"),
        up=m.WantDrops,
        down=m.DropsFound,
    ),
    Channel(
        "engine.blocks",
        Pattern.ASK,
        "engine",
        ("derivation",),
        up=m.WantStart | m.Derived | m.WantL2Blocks,
        down=m.PipelineStart | m.Applied | m.L2BlocksFound,
    ),
    Channel("status.engine", Pattern.STATUS, "engine", ("derivation", "rpc"), down=m.EngineStatus | m.Health),
    Channel(
        "engine.control",
        Pattern.ASK,
        "engine",
        ("rpc",),
        up=m.StartSequencer | m.StopSequencer | m.ResetPipeline | m.WantOutput | m.PostUnsafePayload,
        down=m.ControlDone | m.OutputFound,
    ),
    Channel("engine.payloads", Pattern.ASK, "engine", ("p2p",), up=m.WantPayload, down=m.PayloadFound),
    Channel(
        "p2p.blocks",
        Pattern.ASK,
        "p2p",
        ("engine",),
        up=m.WantBlocks | m.PublishBlock,
        down=m.BlockArrived | m.PublishDone,
    ),
    Channel("status.p2p", Pattern.STATUS, "p2p", ("rpc",), down=m.PeerStatus | m.Health),
    Channel("p2p.control", Pattern.ASK, "p2p", ("rpc",), up=m.PeerCall, down=m.PeerAnswer),
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
