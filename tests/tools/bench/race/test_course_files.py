"""The files of a course."""

from pathlib import Path

import pytest

from rollup_node.tools.bench.race.course_files import CourseFiles, CourseWriter, read_facts


def test_what_is_written_is_read(course: CourseFiles, tmp_path: Path) -> None:
    with CourseWriter(tmp_path / "new") as writer:
        writer.add("one", b"first")
        writer.add("two", b"second")
        writer.finish(course.facts, course.config)
    found = CourseFiles(tmp_path / "new")
    assert (found.body("two"), found.body("one")) == (b"second", b"first")
    with pytest.raises(KeyError):
        found.body("three")
    assert (found.facts, found.config) == (course.facts, course.config)
    assert found.jwt.stat().st_mode & 0o777 == 0o600
    found.close()


def test_the_facts_name_the_ends(course: CourseFiles) -> None:
    facts = read_facts(course.rollup.parent)
    assert facts.l1_head == facts.l1_genesis + 12
    assert facts.last_safe == facts.l2_hashes[40]
