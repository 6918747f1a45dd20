"""The status page in Chromium, in the states that nobody has at hand when they are needed [RPC95]."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import axe_core_python
import msgspec
import pytest

from rollup_node.stages.rpc.status.node_status import State
from rollup_node.stages.rpc.status.readiness import upgrade_warnings
from rollup_node.tools.status_page.pictures import (
    FOLDER,
    NARROW,
    PICTURES,
    READY,
    SIGNATURE,
    WAIT_SECONDS,
    WIDE,
    browser,
    missing,
    open_page,
    set_size,
)
from rollup_node.tools.status_page.scenes import NOW, ROLLUP, Scene, scene
from rollup_node.tools.status_page.server import SceneServer
from tests.support.servers.threads import in_thread

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

REASON = missing()
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
MAX_PICTURE = 150_000
WAITING, THROTTLED = "waiting, not ready", "HTTP status 429"


class Viewer:
    """A browser that shows the page of a server."""

    def __init__(self, driver: "WebDriver", server: SceneServer, show: Callable[[Scene], object]) -> None:
        self.driver, self.server, self.show = driver, server, show

    def text(self, selector: str) -> str:
        """Return what an element shows."""
        return str(self.driver.execute_script(f"return document.querySelector({selector!r}).innerText"))

    def texts(self, selector: str) -> list[str]:
        """Return what all such elements show."""
        script = f"return [...document.querySelectorAll({selector!r})].map((element) => element.innerText)"
        return [str(item) for item in self.driver.execute_script(script)]

    def count(self, selector: str) -> int:
        """How many such elements there are."""
        return int(self.driver.execute_script(f"return document.querySelectorAll({selector!r}).length"))

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, WAIT_SECONDS, 0.05).until(lambda _: condition())

    def overflow(self) -> list[str]:
        """Return the elements that reach beyond the page on its right."""
        script = """return [...document.querySelectorAll("main *")]
            .filter((element) => element.getBoundingClientRect().right > innerWidth + 0.5)
            .map((element) => element.outerHTML.slice(0, 80))"""
        return [str(item) for item in self.driver.execute_script(script)]

    def complaints(self) -> list[str]:
        """Return what the browser logs: errors of scripts, and what the page's policy forbids."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator["WebDriver"]:
    """One browser for all tests."""
    if REASON is not None:
        pytest.skip(REASON)
    with browser(tmp_path_factory.mktemp("profile")) as result:
        yield result


@asynccontextmanager
async def _served(shown: Scene) -> AsyncIterator[tuple[SceneServer, Callable[[Scene], object]]]:
    """Serve a scene; the server, and what shows another scene, from any thread."""
    async with SceneServer(shown).running() as server:
        loop = asyncio.get_running_loop()
        yield server, lambda item: loop.call_soon_threadsafe(partial(server.show, item))


View = Callable[..., AbstractContextManager[Viewer]]


@pytest.fixture
def view(driver: "WebDriver") -> View:
    """Show a scene in the browser, which has nothing to complain about in the end."""

    @contextmanager
    def viewing(shown: Scene, *, dark: bool = False) -> Iterator[Viewer]:
        with in_thread(_served(shown)) as (server, show):
            open_page(driver, server.url, WIDE, dark=dark)
            viewer = Viewer(driver, server, show)
            yield viewer
            assert viewer.complaints() == []
            driver.get("about:blank")

    return viewing


@pytest.mark.parametrize(
    ("name", "tag", "sentence"),
    [
        ("in-step", "synced", "In step with L1 block 26,554,883"),
        ("syncing", "syncing, not ready", "2h 59m behind, about 40m 50s left, limited by l1"),
        ("blobs-missing", WAITING, "The blobs are older than the 18 days for which beacon nodes must keep"),
        ("process-killed", WAITING, "The derivation process is down and about to be restarted"),
        (
            "l1-throttled",
            WAITING,
            "The L1 endpoint refuses requests because there are too many of them (HTTP status 429)",
        ),
    ],
)
def test_each_state_fits_the_page_at_both_widths(view: View, name: str, tag: str, sentence: str) -> None:
    with view(scene(name)) as viewer:
        assert viewer.text("#state") == tag
        assert viewer.text("#sentence").startswith(sentence)
        assert len(viewer.texts("#pipeline .process")) == 5 and len(viewer.texts("#others .process")) == 4
        assert viewer.overflow() == []
        set_size(viewer.driver, NARROW, 900)
        viewer.until(lambda: viewer.overflow() == [])


def test_the_chart_is_drawn_at_first_paint(driver: "WebDriver") -> None:
    """In a window as the browser opens it, that nobody resizes."""
    with in_thread(_served(scene("syncing"))) as (server, show):
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.get(server.url)
        viewer = Viewer(driver, server, show)
        viewer.until(lambda: driver.execute_script(READY))
        size = "const shown = document.querySelector(arguments[0]); return [shown.clientWidth, shown.clientHeight]"
        assert driver.execute_script(size, "#plot canvas") == driver.execute_script(size, "#plot")
        driver.get("about:blank")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["in-step", "syncing", "l1-throttled"])
def test_the_page_is_accessible(view: View, name: str, dark: bool) -> None:
    """As axe-core checks it."""
    with view(scene(name), dark=dark) as viewer:
        assert violations(viewer) == {}


def violations(viewer: Viewer) -> dict[str, list[str]]:
    """Return what axe-core finds, by its rules, many of which the page passes."""
    viewer.driver.execute_script(AXE.read_text())
    result = viewer.driver.execute_async_script("axe.run().then(arguments[0])")
    assert len(result["passes"]) >= 15
    return {rule["id"]: [node["html"] for node in rule["nodes"]] for rule in result["violations"]}


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_all_chains_is_accessible_and_follows_them(view: View, dark: bool) -> None:
    """[SNO12] A row for each scene; rows change without the page being loaded again."""
    with view(scene("in-step"), dark=dark) as viewer:
        viewer.driver.get(viewer.server.chains_url)
        assert violations(viewer) == {} and viewer.overflow() == []
        rows = viewer.texts("tbody tr")
        assert len(rows) == len(viewer.server.chains) == viewer.count("tbody a")
        viewer.driver.execute_script("window.loadedOnce = true")
        for source in viewer.server.chains.values():
            source.scene = scene("in-step")
        viewer.until(lambda: viewer.driver.title == f"{len(rows)} of {len(rows)} chains are ready")
        assert viewer.driver.execute_script("return window.loadedOnce") is True


def test_problems_say_what_to_do(view: View) -> None:
    with view(scene("blobs-missing")) as viewer:
        (problem,) = viewer.texts("#problems li")
    lines = [line for line in problem.splitlines() if line]
    assert lines[:3] == ["blobs", "BLOB-EXPIRED", "for 25m 0s"]
    assert lines[3].startswith("blobs of L1 block ")
    assert "\nWhat to do: add an archive of blobs with --l1.beacon-fallbacks" in problem


def test_warnings_of_a_fork_to_come_say_what_to_do(view: View) -> None:
    """[UPG22] The node is in step all the same."""
    shown, rollup = scene("in-step"), msgspec.structs.replace(ROLLUP, fork_times={"lagoon": NOW + 86_400})
    warnings = upgrade_warnings(rollup, None, NOW)
    with view(
        msgspec.structs.replace(shown, status=msgspec.structs.replace(shown.status, warnings=warnings))
    ) as viewer:
        assert viewer.text("#state") == "synced"
        (warning,) = viewer.texts("#problems li")
    lines = [line for line in warning.splitlines() if line]
    assert lines[:2] == ["warning", "BUNDLE-UNCONFIRMED"] and lines[2].startswith("lagoon activates in 1d0h (")
    assert "\nWhat to do: install a rollup-node whose bundle is confirmed, or take " in warning


def test_the_page_follows_the_node_without_being_loaded_again(view: View) -> None:
    with view(scene("in-step")) as viewer:
        viewer.driver.execute_script("window.loadedOnce = true")
        assert viewer.count("#pipeline .bad.process") == 0
        viewer.show(scene("process-killed"))
        viewer.until(lambda: viewer.count("#pipeline .bad.process") == 1)
        assert viewer.text("#pipeline .bad.process h3").split() == ["derivation", "down"]
        viewer.show(scene("l1-throttled"))
        viewer.until(lambda: viewer.count("#pipeline .bad.process") == 0)
        rows = [row.split("\t") for row in viewer.texts("#endpoints tr")]
        assert [row[1].strip() for row in rows] == ["throttled", "throttled", "ok", "ok"]
        assert [row[3].strip() for row in rows] == ["209", "38", "0", "0"]
        assert THROTTLED in rows[0][0]
        assert viewer.driver.execute_script("return window.loadedOnce") is True


def test_a_node_that_stops_is_not_shown_as_live(view: View) -> None:
    with view(scene("in-step")) as viewer:
        assert viewer.text("#live") == "live"
        asyncio.run(viewer.server.server.close())
        viewer.until(lambda: viewer.text("#live") == "no connection, trying again")
        assert viewer.count("body.lost") == 1


def _times_of_chart(viewer: Viewer, times: list[int]) -> list[int]:
    """Return the times of the chart after it has taken some."""
    ages = {name: [1.0] * len(times) for name in ("l1_head", "unsafe", "safe", "finalized")}
    script = "chart.take(arguments[0]); return chart.columns"
    columns: list[list[int]] = viewer.driver.execute_script(script, {"step_s": 10, "time": times, **ages})
    assert {len(column) for column in columns} == {len(columns[0])}
    return columns[0]


def test_the_chart_outlives_a_restart_of_the_rpc_process(view: View) -> None:
    last = int(scene("in-step").status.time)
    with view(scene("in-step")) as viewer:
        assert len(_times_of_chart(viewer, [])) == 360
        for times, end in (
            ([last + 20, last + 30], [last, last + 20, last + 30]),
            ([last - 20, last - 10], [last - 30, last - 20, last - 10]),
        ):
            assert _times_of_chart(viewer, times)[-3:] == end
        assert _times_of_chart(viewer, [last + 9000]) == [last + 9000]


def test_texts_of_others_stay_texts(view: View) -> None:
    """An endpoint's error is written by whoever answers there."""
    shown, replace = scene("l1-throttled"), msgspec.structs.replace
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>" + "x" * 200
    endpoints = [replace(endpoint, error=hostile, name="y" * 80) for endpoint in shown.status.endpoints or []]
    problems = [replace(problem, text=hostile, code=hostile[:20], means=None) for problem in shown.status.problems]
    drops = [
        replace(drop, text=hostile, reason=f"{number}") for drop in shown.status.drops or [] for number in range(9)
    ]
    lists = {"endpoints": endpoints * 2, "problems": problems * 2, "drops": drops}
    status = replace(shown.status, sentence=f"waiting: {hostile}", **lists)
    with view(replace(shown, status=status)) as viewer:
        assert hostile in viewer.text("#endpoints")
        assert viewer.text("#sentence") == f"L1: {hostile}"
        assert hostile in viewer.text("#problems") and hostile in viewer.text("#drops").lower()
        assert viewer.count("#drops tr") == 12 and "15 further reasons" in viewer.text("#drops-note")
        assert viewer.overflow() == []
        set_size(viewer.driver, NARROW, 900)
        viewer.until(lambda: viewer.overflow() == [])
        assert viewer.count("main img") + viewer.count("main script") == 0
        for _ in range(3):
            viewer.driver.execute_script("show(arguments[0])", msgspec.to_builtins(status))
        shown_twice = "one for each, of equal names too"
        assert viewer.count("#problems li") == 2 and viewer.count("#endpoints tr") == 8, shown_twice
        assert viewer.driver.title == "waiting · op-mainnet"


def test_a_node_that_knows_nothing_yet(view: View) -> None:
    """What is null is a question mark, and no script fails."""
    shown = scene("in-step")
    status = msgspec.structs.replace(
        shown.status,
        state=State.STARTING,
        sentence="starting",
        heads=msgspec.structs.replace(shown.status.heads, unsafe=None, safe=None, finalized=None),
        l1=msgspec.structs.replace(shown.status.l1, current=None, head=None, lag_blocks=None, lag_s=None),
        **dict.fromkeys(("uptime_s", "sequencing_window", "peers", "drops_1h", "processes", "endpoints", "drops")),
    )
    with view(msgspec.structs.replace(shown, status=status)) as viewer:
        assert viewer.text("#sentence") == "Starting"
        assert viewer.texts("#heads .value") == ["?"] * 4
        assert viewer.text("#no-endpoints") == "None has been called yet."
        assert viewer.text("#no-drops") == "Not known."
        assert viewer.count(".process") == 0


def test_the_pictures_of_the_documents_are_there_and_small() -> None:
    sizes = {picture.name: (FOLDER / picture.name).stat().st_size for picture in PICTURES}
    assert {name for name, size in sizes.items() if size >= MAX_PICTURE} == set()
    page = (FOLDER.parent / "status-page.md").read_text()
    for shown in PICTURES:
        assert f"](pictures/{shown.name})" in page
        header = (FOLDER / shown.name).read_bytes()[:20]
        assert header.startswith(SIGNATURE) and struct.unpack_from(">I", header, 16)[0] == shown.width
    assert {path.name for path in FOLDER.iterdir()} == set(sizes)
