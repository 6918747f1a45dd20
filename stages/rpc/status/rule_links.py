"""Where the OP Stack's specs have what a rule of docs/rules is about, for the links of the status page [RPC95]."""

import re

SPECS = "https://specs.optimism.io/"
_DERIVATION = "protocol/derivation.html"
_SPAN_BATCHES = "protocol/delta/span-batches.html"

_SECTIONS = {
    "AD": "experimental/alt-da.html",
    "AQ": f"{_DERIVATION}#payload-attributes-derivation",
    "BE": f"{_DERIVATION}#batch-format",
    "BF": f"{_DERIVATION}#batcher-transaction-format",
    "BL": "protocol/ecotone/derivation.html#ecotone-blob-retrieval",
    "BQ": f"{_DERIVATION}#batch-queue",
    "BS": "protocol/holocene/derivation.html#span-batches",
    "CA": "protocol/holocene/derivation.html#channel-bank",
    "CB": f"{_DERIVATION}#channel-bank",
    "CV": f"{_SPAN_BATCHES}#span-batch-format",
    "E": f"{_DERIVATION}#batch-queue",
    "FU": f"{_SPAN_BATCHES}#batch-queue",
    "O": f"{_DERIVATION}#l1-retrieval",
    "P": f"{_DERIVATION}#frame-format",
    "PS": f"{_DERIVATION}#resetting-the-pipeline",
    "PX": f"{_SPAN_BATCHES}#batch-queue",
    "Q": "protocol/holocene/derivation.html#frame-queue",
    "RD": f"{_DERIVATION}#channel-format",
    "RS": f"{_DERIVATION}#resetting-the-pipeline",
    "ST": f"{_DERIVATION}#channel-format",
    "T": f"{_DERIVATION}#l1-traversal",
    "V": f"{_DERIVATION}#batch-queue",
    "X": f"{_SPAN_BATCHES}#batch-queue",
}
"""By the letters of the rule's id."""

_LETTERS = re.compile("[A-Z]+")


def rule_link(rule: str) -> str | None:
    """Return the address of the section that a rule belongs to; None for a rule of which the specs say nothing."""
    letters = _LETTERS.match(rule)
    section = None if letters is None else _SECTIONS.get(letters.group())
    return None if section is None else SPECS + section
