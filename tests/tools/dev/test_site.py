"""The documentation site: what its pages make of those of the repository, and that it loads nothing from elsewhere."""

from pathlib import Path

import pytest

from rollup_node.tools.dev.site import foreign_sources, site_markdown


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        ("docs/a.md", "[x](b.md#c)", "[x](b.md#c)"),
        ("docs/a.md", "[x](../DECISIONS.md#c)", "[x](DECISIONS.md#c)"),
        ("docs/rules/a.md", "[x](../../CONTRIBUTING.md), [y](b.md)", "[x](../CONTRIBUTING.md), [y](b.md)"),
        ("docs/evidence/a.md", "[x](../rules/b.md)", "[x](../rules/b.md)"),
        ("CHANGELOG.md", "[x](docs/rules/b.md), [y](SECURITY.md)", "[x](rules/b.md), [y](SECURITY.md)"),
        ("docs/a.md", "[`t`](../tests/test_x.py), [r](../README.md)", "`t`, r"),
        ("docs/a.md", "[x](https://example.org/a), [y](#z)", "[x](https://example.org/a), [y](#z)"),
        ("docs/a.md", "![p](pictures/a.png)", "![p](pictures/a.png)"),
        ("docs/rules/a.md", "[glossary.md](../glossary.md#z)", "[Glossary](../glossary.md#z)"),
        ("docs/a.md", "[CHANGELOG.md](../CHANGELOG.md)", "[Changelog](CHANGELOG.md)"),
        ("docs/a.md", "[x](notebooks/b.ipynb)", "[x](notebooks/b.md)"),
        ("docs/notebooks/b.md", "[x](b.ipynb), [y](../a.md)", "[x](b.ipynb), [y](../a.md)"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_nowhere(path: str, text: str, shown: str) -> None:
    assert site_markdown(text, path) == shown


def test_sources_on_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="canonical" href="https://x/a"><link rel="stylesheet" href="b.css"><script src="//x/s.js"></script>'
        '<a href="https://x/">x</a><img src="https://x/i.png">'
    )
    (tmp_path / "b.css").write_text("@import 'https://x/f.css'; a { background: url(i.png) }")
    assert foreign_sources(tmp_path) == ["a.html: //x/s.js", "a.html: https://x/i.png", "b.css: https://x/f.css"]
