"""Stacks of threads and tasks."""

import asyncio
import threading

from rollup_node.stages.io.profiling.stacks import MAX_FRAMES, task_stack, thread_stacks


def test_the_stacks_of_threads() -> None:
    begun, ended = threading.Event(), threading.Event()

    def wait_for_the_end() -> None:
        begun.set()
        ended.wait(10)

    thread = threading.Thread(target=wait_for_the_end, name="waiting")
    thread.start()
    begun.wait(10)
    stacks = {found.name: stack for found, stack in thread_stacks().values()}
    ended.set()
    thread.join()
    names = [function.rsplit(".", 1)[-1] for function, _, _ in stacks["waiting"]]
    assert "wait_for_the_end" in names and names.index("wait") < names.index("wait_for_the_end")
    own = [function for function, file, _ in stacks["MainThread"] if file == __file__]
    assert own == ["test_the_stacks_of_threads"]


def test_the_whole_stack_of_a_task_that_waits() -> None:
    async def inner() -> None:
        await asyncio.sleep(10)

    async def outer() -> None:
        await inner()

    async def scenario() -> None:
        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        names = [function.rsplit(".", 1)[-1] for function, _, _ in task_stack(task)]
        assert names == ["sleep", "inner", "outer"]
        task.cancel()
        current = asyncio.current_task()
        assert current is not None
        functions = [function.rsplit(".", 1)[-1] for function, _, _ in task_stack(current)]
        assert "scenario" in functions and "run_until_complete" in functions

    asyncio.run(scenario())


def test_a_deep_stack_is_cut() -> None:
    async def deep(levels: int) -> None:
        await (deep(levels - 1) if levels else asyncio.sleep(10))

    async def scenario() -> None:
        task = asyncio.create_task(deep(200))
        await asyncio.sleep(0)
        assert len(task_stack(task)) == MAX_FRAMES
        task.cancel()

    asyncio.run(scenario())
