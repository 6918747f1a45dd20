"""The server process of a race."""

import subprocess
import sys
import urllib.request

import msgspec

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.server import Listening, Message


def test_it_says_where_it_listens_and_ends_with_its_input(course: CourseFiles) -> None:
    command = [sys.executable, "-m", "rollup_node.tools.bench.race.server", str(course.rollup.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        message = msgspec.json.decode(server.stdout.readline(), type=Message)
        assert isinstance(message, Listening)
        with urllib.request.urlopen(f"{message.beacon}/eth/v1/beacon/genesis", timeout=20) as answer:
            assert b"genesis_time" in answer.read()
        server.stdin.close()
        assert server.wait(20) == 0
