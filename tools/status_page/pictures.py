"""Takes the pictures of docs/status-page.md with Chromium, which must be installed as `chromium` and `chromedriver`.

python -m rollup_node.tools.status_page.pictures [--out FOLDER]
"""

import argparse
import asyncio
import base64
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rollup_node.tools.status_page.scenes import SCENES, scene
from rollup_node.tools.status_page.server import SceneServer

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver
import struct
import zlib

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WIDE, NARROW = 1280, 420
MAX_HEIGHT = 4000
WAIT_SECONDS = 20.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--disable-lcd-text",
    "--disable-font-subpixel-positioning",
    # Nothing but the page itself is reached.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
READY = "return !document.querySelector('main').hidden && document.querySelector('#plot canvas')?.clientWidth > 0"
FIT = "return document.documentElement.scrollHeight"
REDUCE = """
const [picture, done] = arguments, image = new Image();
image.onload = () => {
  const { width, height } = image, canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const bytes = canvas.getImageData(0, 0, width, height).data, counts = new Map(), colors = [];
  for (let at = 0; at < bytes.length; at += 4) {
    const color = bytes[at] << 16 | bytes[at + 1] << 8 | bytes[at + 2];
    counts.set(color, (counts.get(color) ?? 0) + 1);
    colors.push(color);
  }
  const all = [...counts].sort((a, b) => b[1] - a[1]).map(([color]) => color), kept = all.slice(0, 192);
  const apart = (a, b) => [16, 8, 0].reduce((sum, bit) => sum + ((a >> bit & 255) - (b >> bit & 255)) ** 2, 0);
  const nearest = (color) => kept.reduce((best, each, index) =>
    apart(each, color) < apart(kept[best], color) ? index : best, 0);
  // The rest of the palette are the colours that are furthest from it: few pixels, but a line of a legend.
  const distance = new Map(all.map((color) => [color, apart(color, kept[nearest(color)])]));
  while (kept.length < Math.min(256, all.length)) {
    const next = all.reduce((best, color) => distance.get(color) > distance.get(best) ? color : best);
    kept.push(next);
    all.forEach((color) => distance.set(color, Math.min(distance.get(color), apart(color, next))));
  }
  const places = new Map([...counts.keys()].map((color) => [color, nearest(color)]));
  const text = (values) => {
    let found = "";
    for (let at = 0; at < values.length; at += 8192) found += String.fromCharCode(...values.slice(at, at + 8192));
    return btoa(found);
  };
  const palette = kept.flatMap((color) => [color >> 16, color >> 8 & 255, color & 255]);
  done({ width, palette: text(palette), pixels: text(colors.map((color) => places.get(color))) });
};
image.src = "data:image/png;base64," + picture;
"""
"""Has the browser reduce a picture: its width, palette and pixels."""


class Picture(NamedTuple):
    """A picture to take."""

    scene: str
    name: str
    width: int = WIDE
    dark: bool = False


PICTURES = (
    *(Picture(name, f"status-{name}.png") for name in SCENES),
    Picture("syncing", "status-syncing-dark.png", dark=True),
    Picture("in-step", "status-in-step-narrow.png", NARROW),
)


def missing() -> str | None:
    """Return what is not installed that a browser needs; None when all is there."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (pip install selenium)"
    return None


@contextmanager
def browser(profile: Path) -> Iterator["WebDriver"]:
    """Yield a browser without a window, which keeps what it writes in the folder `profile`."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(shutil.which("chromedriver"), env={**os.environ, "TMPDIR": str(profile)})
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_page_load_timeout(WAIT_SECONDS)
        yield driver
    finally:
        driver.quit()


def open_page(driver: "WebDriver", url: str, width: int = WIDE, *, dark: bool = False) -> None:
    """Open the page in a window of a width, and wait until it shows a status and the chart."""
    from selenium.webdriver.support.wait import WebDriverWait

    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    set_size(driver, width, 900)
    driver.get(url)
    WebDriverWait(driver, WAIT_SECONDS).until(lambda item: item.execute_script(READY))


def set_size(driver: "WebDriver", width: int, height: int) -> None:
    """Give the page a viewport of this size, below the least width of a window as well."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def picture(driver: "WebDriver", width: int) -> bytes:
    """Return the whole page as PNG in 256 of its colours."""
    set_size(driver, width, min(int(driver.execute_script(FIT)), MAX_HEIGHT))
    taken = driver.get_screenshot_as_base64()
    driver.get("about:blank")
    result = driver.execute_async_script(REDUCE, taken)
    return indexed_png(result["width"], base64.b64decode(result["palette"]), base64.b64decode(result["pixels"]))


async def _take(folder: Path, profile: Path, wanted: tuple[Picture, ...]) -> None:
    with browser(profile) as driver:
        for item in wanted:
            async with SceneServer(scene(item.scene)).running() as server:
                await asyncio.to_thread(open_page, driver, server.url, item.width, dark=item.dark)
                taken = await asyncio.to_thread(picture, driver, item.width)
            (folder / item.name).write_bytes(taken)
            print(f"{item.name}: {len(taken) // 1000} kB")


def main(arguments: list[str] | None = None) -> int:
    """Return the command: takes all pictures."""
    parser = argparse.ArgumentParser(description="Takes the pictures of the status page.", allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--only", help="the name of one picture")
    options = parser.parse_args(arguments)
    if (reason := missing()) is not None:
        print(reason, file=sys.stderr)
        return 1
    wanted = tuple(picture for picture in PICTURES if options.only in (None, picture.name))
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        asyncio.run(_take(options.out, Path(profile), wanted))
    return 0


SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_COLORS = 256
_INDEXED = 3


def indexed_png(width: int, palette: bytes, pixels: bytes) -> bytes:
    """Return the file of rows of `width` pixels, each the number of a colour of the palette.

    The palette has three bytes for each. Raises ValueError where they do not fit together."""
    if width <= 0 or len(pixels) % width or not pixels:
        raise ValueError(f"{len(pixels)} pixels make no rows of {width}")
    colors, rest = divmod(len(palette), 3)
    if rest or colors > MAX_COLORS or max(pixels) >= colors:
        raise ValueError(f"a palette of {len(palette)} bytes does not have the colours of the pixels")
    height = len(pixels) // width
    rows = b"".join(b"\x00" + pixels[start : start + width] for start in range(0, len(pixels), width))
    header = struct.pack(">IIBBBBB", width, height, 8, _INDEXED, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


if __name__ == "__main__":
    raise SystemExit(main())
