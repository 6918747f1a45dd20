"""Build the documentation site from the pages of `docs/` and of the top-level folder, by mkdocs.

python -m rollup_node.tools.dev.site [--out FOLDER]

mkdocs runs the functions `on_...` of this file (`hooks` in mkdocs.yml). They let the same files serve readers of the
repository and of the site: links to source files become plain text, and diagrams become tables. The site loads nothing
from other hosts.
"""

import argparse
import functools
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]
TOP_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "DECISIONS.md", "SECURITY.md")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s#]*)(#[^)\s]*)?( \"[^\"]*\")?\)")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_EDGE = re.compile(r"^ *(\w+) (?:<?[-=.]+>)(?:\|([^|]*)\|)? *(\w+)$", re.MULTILINE)
_NODE = re.compile(r'^ *(\w+)\["([^"]*)"\]$', re.MULTILINE)
_RULE = re.compile(r'<a id="([^"]+)"></a>\*\*([A-Z]+\d+(?:\.\d+|[a-z])?)\*\* ?(.*?)(?=\n\n|\n\||\Z)', re.DOTALL)
_CITED = re.compile(r"\b[A-Z]{2,3}\d+(?:\.\d+|[a-z])?\b")
_WHOLE = re.compile(
    r'(`[^`]*`|!?\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)|<a id="[^"]*"></a>\*\*[^*]*\*\*|^#.*$)', re.MULTILINE
)
WIDE_PAGES = ("options.md", "metrics.md", "evidence/faults.md")
"""Pages of wide tables, which get the place of the table of contents."""
TOOLTIP = 160
"""Characters of a rule that a link to it shows."""


# --- hooks of mkdocs -----------------------------------------------------------------------------------------------


def on_files(files: "Files", *, config: "MkDocsConfig") -> "Files":
    """Add the pages of the top-level folder, and a page with pictures for each notebook."""
    from mkdocs.structure.files import File

    for name in TOP_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page, pictures = notebook_page(path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: "MkDocsConfig", files: "Files") -> str:
    """Make a page of the repository one of the site."""
    name = page.file.src_uri
    if name in WIDE_PAGES:
        page.meta["hide"] = ["toc"]
    return site_markdown(markdown, name if name in TOP_PAGES else f"docs/{name}")


# --- notebooks -----------------------------------------------------------------------------------------------------


def notebook_page(path: Path) -> tuple[str, dict[str, str]]:
    """Return the page of a notebook with its outputs, and the pictures that it shows by the names of their files."""
    parts: list[str] = []
    pictures: dict[str, str] = {}
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            if "text" in output:
                parts.append(f"```text\n{''.join(output['text'])}```")
            else:
                name = f"{path.stem}-{len(pictures) + 1}.svg"
                pictures[name] = "".join(output["data"]["image/svg+xml"])
                parts.append(f"![What the cell draws]({name})")
    parts.append(f"[The notebook]({path.name}) itself")
    return "\n\n".join(parts) + "\n", pictures


# --- pages ---------------------------------------------------------------------------------------------------------


def site_markdown(markdown: str, path: str) -> str:
    """Return the text of the page at `path` in the repository as the site shows it."""
    parts = _FENCE.split(markdown)
    return "".join(_diagram(part) if part.startswith("```") else _with_links(part, path) for part in parts)


def _with_links(text: str, path: str) -> str:
    """Return the text with its links, and with links in place of the ids of rules that it cites."""
    parts = _WHOLE.split(text)
    cited = (
        part if index % 2 else _CITED.sub(lambda id: _rule_link(id[0], path), part) for index, part in enumerate(parts)
    )
    return _LINK.sub(lambda link: _link(link, path), "".join(cited))


def _rule_link(rule: str, path: str) -> str:
    """Return a link to a rule whose tooltip is its beginning; ids of one letter may be other words, and are left."""
    if rule not in _rules():
        return rule
    place, shown = _rules()[rule]
    return f'[{rule}]({posixpath.relpath(place, posixpath.dirname(path) or ".")} "{shown}")'


@functools.cache
def _rules() -> dict[str, tuple[str, str]]:
    """Return the place of each rule in the repository, and its beginning as plain text."""
    return {
        rule: (f"docs/rules/{page.name}#{anchor}", _plain(text))
        for page in sorted((ROOT / "docs" / "rules").glob("*.md"))
        for anchor, rule, text in _RULE.findall(page.read_text())
    }


def _plain(text: str) -> str:
    """Return the beginning of a rule without marks, and without what a title of a link may not have."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    line = " ".join(re.sub(r'[`"*<>\\]', "", words.replace("|", " ")).split())
    return line if len(line) <= TOOLTIP else line[:TOOLTIP].rpartition(" ")[0] + " ..."


def _link(link: re.Match[str], path: str) -> str:
    """Return the link as the site has it: its text alone where it leads out of the documents."""
    text, target, section = link[1], link[2], (link[3] or "") + (link[4] or "")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if place.startswith("docs/"):
        place = place.removeprefix("docs/")
        if place.endswith(".ipynb") and not path.startswith("docs/notebooks/"):
            place = place.removesuffix(".ipynb") + ".md"
    elif place not in TOP_PAGES:
        return text
    here = posixpath.dirname(path).removeprefix("docs").strip("/")
    if text.endswith(".md") and posixpath.basename(text) == posixpath.basename(target):
        text = _title(place)
    return f"[{text}]({posixpath.relpath(place, here or '.')}{section})"


@functools.cache
def _title(page: str) -> str:
    """Return the heading of a page of the site, in place of the name of its file."""
    path = ROOT / page if page in TOP_PAGES else ROOT / "docs" / page
    return path.read_text().partition("\n")[0].removeprefix("# ") if path.exists() else posixpath.basename(page)


def _diagram(fence: str) -> str:
    """Return a fenced block; of a flowchart a table of its arrows, one row for each node that they leave."""
    if not fence.startswith("```mermaid"):
        return fence
    names = dict(_NODE.findall(fence))
    rows: dict[str, list[str]] = {}
    for source, label, target in _EDGE.findall(fence):
        name = names.get(target, target)
        rows.setdefault(names.get(source, source), []).append(f"`{name}`" + (f" ({label})" if label else ""))
    lines = [f"| `{source}` | {', '.join(targets)} |" for source, targets in rows.items()]
    return "\n".join(["| From | To |", "|---|---|", *lines])


# --- the build -----------------------------------------------------------------------------------------------------


_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}


class _Sources(HTMLParser):
    """Finds what a browser would load of a page by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag of the page."""
        values = dict(attrs)
        source = values.get(_LOADED.get(tag, "")) or ""
        if re.match(r"(?:https?:)?//", source) and values.get("rel") not in ("canonical", "prev", "next"):
            self.foreign.append(source)


def foreign_sources(folder: Path) -> list[str]:
    """List what the pages of a site would load from other hosts, as `page: address`."""
    sources = []
    for path in sorted(folder.rglob("*.html")):
        parser = _Sources()
        parser.feed(path.read_text())
        sources += [f"{path.relative_to(folder)}: {source}" for source in parser.foreign]
    for path in sorted(folder.rglob("*.css")):
        addresses = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"']+)", path.read_text())
        sources += [f"{path.relative_to(folder)}: {address}" for address in addresses]
    return sources


def build(folder: Path) -> int:
    """Build the site into a folder; 1 if a link is broken or a page would load something from another host."""
    # Not --quiet: warnings that are not logged do not count for --strict.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, "--site-dir", str(folder)], check=False, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr, end="")
        return 1
    foreign = foreign_sources(folder)
    for line in foreign:
        print(f"error: {line}: the site must not load anything from other hosts", file=sys.stderr)
    return 1 if foreign else 0


def main(arguments: list[str] | None = None) -> int:
    """Build the site; without --out only to see whether it can be built."""
    parser = argparse.ArgumentParser(description="Builds the documentation site.", allow_abbrev=False)
    parser.add_argument("--out", type=Path, help="where to write the site; otherwise it is only checked")
    out = parser.parse_args(arguments).out
    if out is not None:
        return build(out.resolve())
    with tempfile.TemporaryDirectory() as folder:
        return build(Path(folder) / "site")


if __name__ == "__main__":
    sys.exit(main())
