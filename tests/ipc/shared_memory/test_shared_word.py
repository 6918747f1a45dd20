"""A number that processes share."""

import multiprocess

from rollup_node.ipc.shared_memory.shared_word import SharedWord


def test_a_child_reads_and_sets_it() -> None:
    word = SharedWord("test", 3)
    child = multiprocess.get_context("fork").Process(target=lambda: word.set(word.get() + 4))
    child.start()
    child.join()
    assert (child.exitcode, word.get()) == (0, 7)
    word.close()
