"""The command lines of the nodes."""

from pathlib import Path

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.programs import Place, op_node, rollup_node
from rollup_node.tools.bench.race.server import Listening

PLACE = Place(Listening("http://l1", "http://beacon", "http://engine"), 1234, Path("scratch"))


def test_both_nodes_get_the_same_options(course: CourseFiles) -> None:
    ours = rollup_node(["--workers=2"]).command(course, PLACE)
    theirs = op_node(Path("op-node")).command(course, PLACE)
    assert theirs[0] == str(Path("op-node").absolute())
    common = {"--l1=http://l1", "--l1.trustrpc=false", "--l1.rpckind=standard", "--syncmode=consensus-layer"}
    assert common | {"--p2p.disable=true", f"--rollup.config={course.rollup}"} <= set(theirs) & set(ours)
    assert set(ours) - set(theirs) >= {"--runtime.dir=scratch/run", "--workers=2"}
