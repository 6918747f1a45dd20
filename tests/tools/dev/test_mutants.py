"""The mutants of a source file, and which tests they meet."""

from rollup_node.tools.dev.mutants import mutants_of

SOURCE = '''LIMIT = 5


def is_low(ä, items, other):
    """Not changed: 1 < 2."""
    log.warning("not logic", number=1)
    if ä < 3 and not items:
        items.clear()
        other.count += 1
    return items is None or other[True]
'''


def test_each_change_of_a_function() -> None:
    changes = {(item.line, item.old, item.new) for item in mutants_of("x.py", SOURCE.encode())}
    assert changes == {
        (7, "ä < 3 and not items", "(not (ä < 3 and (not items)))"),
        (7, "ä < 3 and not items", "False"),
        (7, "ä < 3 and not items", "(ä < 3 or not items)"),
        (7, "ä < 3", "(ä <= 3)"),
        (7, "3", "(3 + 1)"),
        (7, "3", "(3 - 1)"),
        (7, "not items", "bool(items)"),
        (8, "items.clear()", "pass"),
        (9, "other.count += 1", "pass"),
        (9, "1", "(1 + 1)"),
        (9, "1", "(1 - 1)"),
        (10, "return items is None or other[True]", "return None"),
        (10, "items is None or other[True]", "(items is None and other[True])"),
        (10, "items is None", "(items is not None)"),
        (10, "True", "False"),
    }
