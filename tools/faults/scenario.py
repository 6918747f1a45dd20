"""Scenarios of faults in TOML.

What happens between a node of a local network and its endpoints, for how long, and what has to hold afterwards."""

import random
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import product
from typing import Any, NamedTuple

import msgspec

LIST_FIELDS = ("on", "method", "do", "status")
"""Fields of a fault whose lists stand for one scenario for each value."""

MAX_SECONDS = 120.0
SHALLOW_REORG = 4
"""The deepest reorg that leaves what a local network's L1 has finalized."""
MAX_REORG = 64
MAX_CLOCK = 86_400
MAX_CORES = 0.4
"""Of CPU time by the node over a scenario, in cores: one that tries again without a pause takes most of one."""


class ScenarioError(ValueError):
    """A file of scenarios cannot be used; the text says where and why."""


class Action(Enum):
    """What is done to a request or its response."""

    DELAY = "delay"
    """The response comes `seconds` later."""
    HANG = "hang"
    """There is no response."""
    RESET = "reset"
    """The connection is reset before the response."""
    STATUS = "status"
    """An HTTP status with `headers` and `body` in its place."""
    HTML = "html"
    """Status 200 with a page of HTML."""
    GARBAGE = "garbage"
    """Status 200 with random bytes."""
    TRUNCATE = "truncate"
    """The connection ends after `part` of the body."""
    CUT_JSON = "cut-json"
    """A complete response whose body is `part` of the right one."""
    ERROR = "error"
    """A JSON-RPC error of `code` and `message`."""
    RESULT = "result"
    """`value` as the result."""
    EDIT = "edit"
    """`value` at `path` of the result."""
    REMOVE = "remove"
    """Without what is at `path` of the result."""
    RETYPE = "retype"
    """Another type of JSON value at `path` of the result."""
    FLIP = "flip"
    """Another hex digit at the end of the string at `path` of the result."""
    DOUBLE = "double"
    """The list at `path` of the result twice over."""
    REVERSE = "reverse"
    """The list at `path` of the result, or of a batch, in the reverse order."""
    SHORT = "short"
    """The list at `path` of the result, or a batch, without its last item."""
    WRONG_ID = "wrong-id"
    """The response has another id."""
    LAG = "lag"
    """A chain that ends `blocks` before the head."""
    STUCK = "stuck"
    """A chain that ends where it did at the beginning of the scenario."""
    NO_QUERY = "no-query"
    """The request loses its query, as in a proxy that drops it."""
    CORRUPT = "corrupt"
    """Another bit at the end of a body that is no JSON."""
    BARE = "bare"
    """The data of a response in JSON without its envelope."""
    FORGED = "forged"
    """The response of an L1 with another chain from the same genesis, which a third of each sync committee signs."""
    STALE = "stale"
    """The result of the first such request in the place of this one's."""


class Role(Enum):
    """The endpoints that faults are put before.

    L1, Beacon API, engine and DA server of the verifier, signer and conductor of the sequencer."""

    L1 = "l1"
    BEACON = "beacon"
    ENGINE = "engine"
    DA = "da"
    SIGNER = "signer"
    CONDUCTOR = "conductor"


SEQUENCER_ROLES = frozenset({Role.SIGNER, Role.CONDUCTOR})


class Need(Enum):
    """What the local network of a scenario has besides L1, engines, two nodes and a batcher."""

    SERVICES = "services"
    """Alt-DA, a signer and a conductor."""
    FINALITY = "finality"
    """An L1 whose finality is so far behind that its deepest reorg leaves it."""
    FORK = "fork"
    """A fork that activates while it runs."""
    DISK = "disk"
    """A small disk for the verifier's files."""
    CLOCK = "clock"
    """A clock of the verifier's own."""
    CHECKPOINT = "checkpoint"
    """Nodes that believe in L1 what its sync committees have signed, and an L1 with another chain."""
    GLOAS = "gloas"
    """An L1 that enters Gloas while it runs."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to the requests of one endpoint.

    To each `every`-th whose method, or path for REST, contains one of the words of `method` and whose first parameter
    is `param`, with the probability `chance`. `path` names a place in the result, such as `transactions.0.to`, where
    `*` stands for each item."""

    on: Role
    do: Action
    method: str = ""
    param: str = ""
    every: int = 1
    chance: float = 1.0
    seconds: float = 5.0
    status: int = 503
    headers: dict[str, str] = {}
    body: str = ""
    code: int = -32000
    message: str = "internal error"
    value: Any = None
    path: str = ""
    part: float = 0.5
    blocks: int = 8


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens once, `after` seconds from the beginning, or from the last deep reorg that is named before it.

    `kill` or `stop` (for `seconds`) a process of the node by its role; `restart` the verifier's `engine`, which then
    lacks its last `lose` blocks, or its `node`; `reorg` so many of L1's last blocks, as soon as there are that many,
    with a deposit among them if they are more than four, and the activation of a fork if it is `across` one; go `back`
    to the branch before the last reorg; `fill` the verifier's disk for `seconds`; set its clock ahead by `clock`
    seconds for `seconds`."""

    kill: str = ""
    stop: str = ""
    reorg: int = 0
    across: bool = False
    back: bool = False
    restart: str = ""
    lose: int = 0
    fill: bool = False
    clock: int = 0
    after: float = 0.0
    seconds: float = 3.0

    @property
    def is_reorg(self) -> bool:
        """Whether L1 changes its branch."""
        return bool(self.reorg or self.back)


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The faults and events hold for `seconds`, on an L1 in Gloas with `gloas`.

    `names` is a regular expression that the node's log, or a reason of its `/readyz`, has to match meanwhile; empty
    where nothing needs to be said. Within `recovers` seconds after the end the verifier has the safe chain of the
    sequencer, and a new block of it where the sequencer is the node or L1 had a deep reorg: one that is higher than
    all that were replaced. `dies` are the roles that may end, or `all`. `cases` are those of the list of fault cases
    (F1 to F61) that the scenario covers. The node may log `max_lines` and take `max_cores` of CPU time on average:
    more than `MAX_CORES` where the scenario gives it much to do. With `checkpoint` the nodes have one, and name no
    L1 block that is not on the honest L1."""

    name: str
    faults: tuple[Fault, ...] = ()
    events: tuple[Event, ...] = ()
    seconds: float = 5.0
    names: str = ""
    recovers: float = 40.0
    dies: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    gloas: bool = False
    checkpoint: bool = False
    max_lines: int = 200
    max_cores: float = MAX_CORES

    @property
    def is_of_sequencer(self) -> bool:
        """Whether the node is the sequencer; otherwise it is the verifier."""
        return any(fault.on in SEQUENCER_ROLES for fault in self.faults)

    @property
    def needs(self) -> frozenset[Need]:
        """What its network must have."""
        result = {Need.SERVICES for fault in self.faults if fault.on in SEQUENCER_ROLES | {Role.DA}}
        result |= {Need.FINALITY for event in self.events if event.back or event.reorg > SHALLOW_REORG}
        result |= {Need.FORK for event in self.events if event.across}
        result |= {Need.DISK for event in self.events if event.fill}
        result |= {Need.CLOCK for event in self.events if event.clock}
        result |= {Need.GLOAS} if self.gloas else set()
        result |= {Need.CHECKPOINT} if self.checkpoint else set()
        return frozenset(result)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    scenario: list[dict[str, Any]]


def parse_scenarios(text: str) -> tuple[Scenario, ...]:
    """Return the scenarios of a file.

    A fault with lists stands for one scenario for each combination, whose name has the values in the place of
    `{on}`, `{method}`, `{do}` and `{status}`. Raises ScenarioError."""
    try:
        tables = msgspec.toml.decode(text, type=_File).scenario
    except msgspec.DecodeError as error:
        raise ScenarioError(f"no file of scenarios: {error}") from None
    result: dict[str, Scenario] = {}
    for number, table in enumerate(tables, start=1):
        for values in _expanded(table):
            scenario = _scenario(values, f"scenario {number} ({table.get('name', 'without a name')})")
            if scenario.name in result:
                raise ScenarioError(f"two scenarios have the name {scenario.name}")
            result[scenario.name] = scenario
    return tuple(result.values())


def _scenario(values: dict[str, Any], where: str) -> Scenario:
    try:
        scenario = msgspec.convert(values, Scenario)
        re.compile(scenario.names)
    except (msgspec.ValidationError, re.error) as error:
        raise ScenarioError(f"{where}: {error}") from None
    problem = _problem(scenario)
    if problem is not None:
        raise ScenarioError(f"{where}: {problem}")
    return scenario


def _problem(scenario: Scenario) -> str | None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", scenario.name):
        return "its name must be lower-case letters, digits, dots and hyphens"
    if not 0 < scenario.seconds <= MAX_SECONDS or not 0 < scenario.recovers <= MAX_SECONDS:
        return f"`seconds` and `recovers` must be above 0 and at most {MAX_SECONDS:g}"
    if not 0 < scenario.max_cores <= 1:
        return "`max_cores` must be above 0 and at most 1"
    if not scenario.faults and not scenario.events:
        return "there must be a fault or an event"
    for fault in scenario.faults:
        if fault.every < 1 or not 0 < fault.chance <= 1 or not 0 <= fault.part < 1:
            return "`every` must be at least 1, `chance` above 0 and at most 1, `part` at least 0 and below 1"
        if fault.do in (Action.LAG, Action.STUCK) and fault.on is not Role.L1:
            return f"`{fault.do.value}` is a fault of l1"
        if fault.do is Action.FORGED and not (scenario.checkpoint and fault.on in (Role.L1, Role.BEACON)):
            return "`forged` is a fault of l1 and beacon in a scenario with `checkpoint`"
    return next((problem for event in scenario.events if (problem := _event_problem(event))), None)


def _event_problem(event: Event) -> str | None:
    if not 0 <= event.reorg <= MAX_REORG:
        return f"`reorg` must be at most {MAX_REORG} blocks"
    if event.across and not event.reorg:
        return "`across` belongs to a `reorg`"
    if event.restart not in ("", "engine", "node"):
        return "`restart` must be engine or node"
    if not -MAX_CLOCK <= event.clock <= MAX_CLOCK:
        return f"`clock` must be at most {MAX_CLOCK} seconds"
    return None


def _expanded(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    faults: Any = table.get("faults")
    first: dict[str, Any] = faults[0] if isinstance(faults, list) and faults and isinstance(faults[0], dict) else {}
    lists = {name: first[name] for name in LIST_FIELDS if isinstance(first.get(name), list)}
    for values in product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        words = {name: _word(value) for name, value in chosen.items()}
        name = table.get("name", "")
        for key, word in words.items():
            name = name.replace("{" + key + "}", word) if isinstance(name, str) else name
        yield {**table, "name": name, **({"faults": [{**first, **chosen}, *faults[1:]]} if lists else {})}


def _word(value: Any) -> str:
    return re.sub(r"[^a-z0-9]+", "-", str(value).lower()).strip("-") or "any"


def select(scenarios: Sequence[Scenario], only: Sequence[str], cases: Sequence[str] = ()) -> tuple[Scenario, ...]:
    """Those whose name begins with one of `only`, and those that cover one of `cases`; all without any.

    Raises ScenarioError if one selects nothing."""
    for prefix in only:
        if not any(scenario.name.startswith(prefix) for scenario in scenarios):
            raise ScenarioError(f"no scenario's name begins with {prefix!r}")
    for case in cases:
        if not any(case in scenario.cases for scenario in scenarios):
            raise ScenarioError(f"no scenario covers the case {case!r}: docs/evidence/faults.md has the tests of each")
    if not only and not cases:
        return tuple(scenarios)
    return tuple(
        scenario
        for scenario in scenarios
        if scenario.name.startswith(tuple(only)) or not set(cases).isdisjoint(scenario.cases)
    )


LABELS = ("latest", "pending")


class Request(NamedTuple):
    """A request as the proxy sees it: of REST, or of JSON-RPC with its calls."""

    role: Role
    path: str
    calls: tuple[dict[str, Any], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The methods of the calls, or the path."""
        return tuple(str(call.get("method", "")) for call in self.calls) or (self.path,)


class FaultPlan:
    """The faults that hold now, with how often each has been met; `chance` decides those that have a probability."""

    def __init__(self, faults: Sequence[Fault], chance: random.Random) -> None:
        self._faults, self.chance = tuple(faults), chance
        self._met = [0] * len(self._faults)
        self.applied = 0

    def of(self, request: Request) -> list[Fault]:
        """Return the faults of a request, in their order."""
        result = []
        for index, fault in enumerate(self._faults):
            wanted = fault.method.split()
            if fault.on is not request.role:
                continue
            if wanted and not any(word in name for word in wanted for name in request.words):
                continue
            if fault.param and not any(concerns(fault, call) for call in request.calls):
                continue
            self._met[index] += 1
            if self._met[index] % fault.every == 0 and self.chance.random() < fault.chance:
                result.append(fault)
        self.applied += bool(result)
        return result


def concerns(fault: Fault, call: dict[str, Any]) -> bool:
    """Whether a fault is one of this call."""
    method, params = str(call.get("method", "")), call.get("params")
    if fault.param and not (isinstance(params, list) and params and params[0] == fault.param):
        return False
    return not fault.method or any(word in method for word in fault.method.split())


def clipped_call(call: dict[str, Any], head: int) -> dict[str, Any] | None:
    """Return the call as it reads to a chain that ends at block `head`; None if that has no such block."""
    method, params = call.get("method"), call.get("params")
    if method not in ("eth_getBlockByNumber", "eth_getBlockReceipts") or not isinstance(params, list) or not params:
        return call
    label = params[0]
    if label in LABELS:
        return {**call, "params": [hex(head), *params[1:]]}
    if isinstance(label, str) and label.startswith("0x") and len(label) < 18 and int(label, 16) > head:
        return None
    return call


def is_clipping(fault: Fault) -> bool:
    """Whether the fault shows a chain that ends earlier."""
    return fault.do in (Action.LAG, Action.STUCK)
