"""Messages and channels for tests of the bus: `server` serves `client`, `worker` works for `server` and `other`."""

import msgspec

from rollup_node.ipc.bus.channels import Channel, Pattern


class EchoRequest(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


class EchoResponse(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


class SquareTask(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


class SquareResult(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


class HeadState(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


class HealthState(msgspec.Struct, frozen=True, array_like=True, tag=True):
    problems: tuple[str, ...]


ECHO, STATE, WORK, OTHER_WORK = "server.echo", "server.state", "server.work", "other.work"
CHANNELS = (
    Channel(ECHO, Pattern.REQUEST, "server", ("client", "stranger"), up=EchoRequest, down=EchoResponse),
    Channel(STATE, Pattern.STATUS, "server", ("client",), down=HeadState | HealthState),
    Channel(WORK, Pattern.WORK, "server", ("worker",), down=SquareTask, up=SquareResult),
    Channel(OTHER_WORK, Pattern.WORK, "other", ("worker",), down=SquareTask, up=SquareResult),
)


def square(task: SquareTask) -> SquareResult:
    """Return the handler of the tasks: the square of the number, the data reversed."""
    return SquareResult(task.number**2, task.data[::-1])
