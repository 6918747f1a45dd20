"""The interpreter. Nested calls are a list of frames instead of Python recursion, so that depth costs only memory."""

from rollup_node.tools.devnet.evm.call_frame import (
    STACK_LIMIT,
    CallFrame,
    CallMessage,
    CodeAnalysis,
    ExceptionalHalt,
    OutOfGas,
    TransactionEnvironment,
)
from rollup_node.tools.devnet.evm.rules import Precompile

_CODE_BYTE_GAS = 200
_NO_CODE = CodeAnalysis(b"", ())


def execute(environment: TransactionEnvironment, message: CallMessage) -> CallFrame:
    """Run a message with all nested calls; the finished frame has the result."""
    frames = [_open(environment, message)]
    while True:
        frame = frames[-1]
        if frame.next >= 0:
            _advance(frame)
            if frame.pending is not None:
                frames.append(_open(environment, frame.pending))
                frame.pending = None
                continue
        frames.pop()
        _close(frame)
        if not frames:
            return frame
        frames[-1].resume(frame)


def _open(environment: TransactionEnvironment, message: CallMessage) -> CallFrame:
    """Open a frame: transfer the value, create the account, and run a precompile."""
    state, rules = environment.state, environment.rules
    code = message.code
    analysis = rules.instructions.analyse(code) if code else _NO_CODE
    frame = CallFrame(environment, message, state.snapshot(), analysis)
    if message.creates:
        if state.is_occupied(message.address):  # EIP-684: consumes all gas
            frame.fail("contract address collision")
            return frame
        state.mark_created(message.address)
        state.set_nonce(message.address, 1)  # EIP-161
    if message.creates or message.transfers:
        state.subtract_balance(message.caller, message.value)
        state.add_balance(message.address, message.value)
        environment.log_transfer(message.caller, message.address, message.value)
    precompile = None if message.creates else rules.precompiles.get(message.code_address)
    if precompile is not None:
        _run_precompile(frame, precompile)
    elif not code:
        frame.finish()
    return frame


def _run_precompile(frame: CallFrame, precompile: Precompile) -> None:
    data = frame.message.data
    try:
        frame.charge(precompile.gas(data))
        frame.finish(precompile.run(data))
    except ExceptionalHalt as halt:
        frame.fail(str(halt))


def _advance(frame: CallFrame) -> None:
    """Run basic blocks until the frame ends or calls."""
    analysis, stack = frame.analysis, frame.stack
    blocks, push = analysis.blocks, stack.append
    offset = frame.next
    try:
        while offset >= 0 and frame.pending is None:
            block = blocks.get(offset) or analysis.block_at(offset)
            frame.gas -= block.gas
            if frame.gas < 0:
                raise OutOfGas("out of gas")
            height = len(stack)
            if height < block.stack_needed:
                raise ExceptionalHalt("stack underflow")
            if height + block.stack_growth > STACK_LIMIT:
                raise ExceptionalHalt("stack overflow")
            frame.next = block.following
            for operation, argument in block.steps:
                if operation is None:
                    push(argument)
                else:
                    operation(frame, stack, argument)
            offset = frame.next
    except ExceptionalHalt as halt:
        frame.pending = None
        frame.fail(str(halt))


def _close(frame: CallFrame) -> None:
    """Store the code of a successful creation; reverts the changes of a failed frame."""
    if frame.succeeded and frame.message.creates:
        _deposit_code(frame)
    if not frame.succeeded:
        frame.state.revert(frame.snapshot)


def _deposit_code(frame: CallFrame) -> None:
    code = frame.output
    rules = frame.environment.rules
    if code[:1] == b"\xef":  # EIP-3541
        frame.fail("invalid code: must not begin with 0xef")
    elif len(code) > rules.max_code:
        frame.fail("max code size exceeded")
    elif frame.gas < _CODE_BYTE_GAS * len(code):
        frame.fail("contract creation code storage out of gas")
    else:
        frame.gas -= _CODE_BYTE_GAS * len(code)
        frame.state.set_code(frame.message.address, code)
