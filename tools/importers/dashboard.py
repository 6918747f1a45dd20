"""Writes the Grafana dashboard, docker/grafana/dashboard.json, from the table of its panels.

python -m rollup_node.tools.importers.dashboard
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

DASHBOARD = Path(__file__).resolve().parents[2] / "docker" / "grafana" / "dashboard.json"

WIDTH, HEIGHT, STAT_HEIGHT = 24, 8, 4
STAT, LINES = "stat", "timeseries"
_NODE = 'instance="$instance"'
ALL = {"text": "All", "value": "$__all"}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    """A query, whose every metric has braces, to which the choice of the node is added, and how its series are named.

    Without a name a panel of one value shows the value."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """A panel; `unit` is Grafana's, `width` in the 24 columns of the page."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = LINES
    width: int = 8


def _p(name: str) -> str:
    return f"op_node_default_{name}"


def _rate(name: str, by: str, labels: str = "") -> str:
    return f"sum by ({by}) (rate({_p(name)}{{{labels}}}[$__rate_interval]))"


def _quantile(name: str, by: str, labels: str = "") -> str:
    buckets = f"sum by (le, {by}) (rate({_p(name)}_bucket{{{labels}}}[$__rate_interval]))"
    return f"histogram_quantile(0.95, {buckets})"


def _mean(name: str, by: str = "instance") -> str:
    rates = [f"sum by ({by}) (rate({_p(name)}_{part}{{}}[$__rate_interval]))" for part in ("sum", "count")]
    return " / ".join(rates)


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Overview",
        (
            Panel("Ready", "bool_yes_no", (Query(_p("ready{}"), ""),), STAT, 3),
            Panel("State", "none", (Query(_p("sync_state{} == 1"), "{{state}}"),), STAT, 3),
            Panel("Age of the safe head", "s", (Query(_p('sync_head_age_seconds{head="safe"}'), ""),), STAT, 3),
            Panel("Behind L1", "s", (Query(_p("sync_l1_lag_seconds{}"), ""),), STAT, 3),
            Panel("Safe blocks a second", "none", (Query(_p("sync_blocks_per_second{}"), ""),), STAT, 3),
            Panel("Peers", "none", (Query(_p("p2p_peer_count{}"), ""),), STAT, 3),
            Panel("Memory", "bytes", (Query("sum(process_proportional_memory_bytes{})", ""),), STAT, 3),
            Panel("Version", "none", (Query(_p("info{}"), "{{version}}"),), STAT, 3),
        ),
    ),
    (
        "Heads",
        (
            Panel(
                "L2 heads",
                "none",
                (Query(_p('refs_number{layer="l2",type=~"l2_unsafe|l2_safe|l2_finalized"}'), "{{type}}"),),
            ),
            Panel("L1 blocks", "none", (Query(_p('refs_number{layer="l1"}'), "{{type}}"),)),
            Panel("Age of the heads", "s", (Query(_p("sync_head_age_seconds{}"), "{{head}}"),)),
            Panel(
                "Behind L1, and time left",
                "s",
                (Query(_p("sync_l1_lag_seconds{}"), "behind"), Query(_p("sync_eta_seconds{}"), "left")),
            ),
            Panel("Derivation waits for", "none", (Query(_p("sync_limited_by{}"), "{{stage}}"),)),
            Panel(
                "Sequencing window",
                "none",
                (Query(_p("sequencing_window_left_blocks{}"), "L1 blocks left"),),
            ),
        ),
    ),
    (
        "Derivation",
        (
            Panel("Batches", "ops", (Query(_rate("derived_batches_total", "type"), "{{type}}"),)),
            Panel(
                "Channels and frames",
                "ops",
                (
                    Query(_rate("head_channel_total", "instance"), "channels"),
                    Query(_rate("frame_added_total", "instance"), "frames"),
                    Query(_rate("channel_timeout_total", "instance"), "timed out"),
                ),
            ),
            Panel("Compressed input", "Bps", (Query(_rate("channel_input_bytes", "instance"), "bytes"),)),
            Panel(
                "Dropped data",
                "none",
                (Query(f"sum by (effect) (increase({_p('derivation_drop_effects_total')}{{}}[10m]))", "{{effect}}"),),
            ),
            Panel(
                "Resets and errors",
                "none",
                (
                    Query(f"increase({_p('pipeline_resets_total')}{{}}[10m])", "resets"),
                    Query(f"increase({_p('derivation_errors_total')}{{}}[10m])", "errors"),
                ),
            ),
            Panel("Waits for L1", "s", (Query(_mean("l1_request_seconds", "request"), "{{request}}"),)),
        ),
    ),
    (
        "L1 and beacon endpoints",
        (
            Panel(
                "Requests",
                "reqps",
                (Query(_rate("rpc_client_requests_total", "rpc, method", 'rpc!="engine-api"'), "{{rpc}} {{method}}"),),
            ),
            Panel(
                "Duration, 95 %",
                "s",
                (
                    Query(
                        _quantile("rpc_client_request_duration_seconds", "rpc, method", 'rpc!="engine-api"'),
                        "{{rpc}} {{method}}",
                    ),
                ),
            ),
            Panel(
                "Failures",
                "none",
                (
                    Query(
                        f"sum by (endpoint, fault) (increase({_p('endpoint_failures_total')}{{}}[10m]))",
                        "{{endpoint}} {{fault}}",
                    ),
                ),
            ),
            Panel(
                "Calls in a day",
                "none",
                (
                    Query(
                        f"sum by (rpc, endpoint) (increase({_p('endpoint_calls_total')}{{}}[1d]))",
                        "{{rpc}} {{endpoint}}",
                    ),
                    Query(
                        f"sum by (rpc, endpoint) (increase({_p('endpoint_throttled_total')}{{}}[1d]))",
                        "{{rpc}} {{endpoint}} throttled",
                    ),
                ),
            ),
            Panel(
                "Received in a day",
                "bytes",
                (
                    Query(
                        f"sum by (rpc, method) (increase({_p('rpc_client_results_size_total')}"
                        '{rpc!="engine-api"}[1d]))',
                        "{{rpc}} {{method}}",
                    ),
                ),
            ),
            Panel("Endpoint in use", "none", (Query(_p("endpoint_in_use{}"), "{{rpc}} {{endpoint}}"),)),
            Panel("L1 requests for each L1 block", "none", (Query(_p("l1_requests_per_block{}"), "requests"),)),
            Panel("Received", "Bps", (Query(_rate("rpc_client_results_size_total", "rpc"), "{{rpc}}"),)),
            Panel("Cached", "none", (Query(_p("l1_source_cache_size{}"), "{{type}}"),)),
            Panel(
                "Cache lookups",
                "ops",
                (Query(_rate("l1_source_cache_get", "type, hit"), "{{type}} hit={{hit}}"),),
            ),
            Panel("L1 reorgs", "none", (Query(f"increase({_p('l1_reorg_depth_count')}{{}}[1h])", "in an hour"),)),
        ),
    ),
    (
        "Execution engine",
        (
            Panel(
                "Calls",
                "reqps",
                (Query(_rate("rpc_client_requests_total", "method", 'rpc="engine-api"'), "{{method}}"),),
            ),
            Panel(
                "Duration, 95 %",
                "s",
                (Query(_quantile("rpc_client_request_duration_seconds", "method", 'rpc="engine-api"'), "{{method}}"),),
            ),
            Panel(
                "Answers",
                "reqps",
                (Query(_rate("rpc_client_responses_total", "error", 'rpc="engine-api"'), "{{error}}"),),
            ),
            Panel("Unsafe payloads", "ops", (Query(_rate("unsafe_payloads_total", "instance"), "received"),)),
            Panel(
                "Waiting unsafe payloads",
                "none",
                (Query(_p("unsafe_payloads_buffer_len{}"), "payloads"),),
            ),
            Panel("Transactions", "ops", (Query(_rate("transactions_sequenced_total", "type"), "{{type}}"),)),
        ),
    ),
    (
        "Sequencer",
        (
            Panel(
                "Sequencing",
                "none",
                (
                    Query(_p("sequencer_active{}"), "active"),
                    Query(_rate("sequencer_building_diff_total", "instance"), "blocks a second"),
                ),
            ),
            Panel(
                "Build time less block time, and sealing",
                "s",
                (
                    Query(_mean("sequencer_building_diff_seconds"), "build"),
                    Query(_mean("sequencer_sealing_seconds"), "seal"),
                ),
            ),
            Panel(
                "Errors",
                "none",
                (
                    Query(f"increase({_p('sequencing_errors_total')}{{}}[10m])", "sequencing"),
                    Query(f"increase({_p('publishing_errors_total')}{{}}[10m])", "publishing"),
                    Query(f"increase({_p('sequencer_inconsistent_l1_origin_total')}{{}}[10m])", "L1 origin"),
                ),
            ),
        ),
    ),
    (
        "P2P",
        (
            Panel(
                "Peers and streams",
                "none",
                (Query(_p("p2p_peer_count{}"), "peers"), Query(_p("p2p_stream_count{}"), "streams")),
            ),
            Panel("Gossip", "ops", (Query(_rate("p2p_gossip_events_total", "type"), "{{type}}"),)),
            Panel(
                "Bandwidth",
                "Bps",
                (Query(_rate("p2p_bandwidth_bytes_total", "direction"), "{{direction}}"),),
            ),
            Panel(
                "Requests for blocks",
                "ops",
                (Query(_rate("p2p_req_total", "p2p_role, result_code"), "{{p2p_role}} {{result_code}}"),),
            ),
            Panel(
                "Connections",
                "ops",
                (
                    Query(_rate("p2p_dials", "allow"), "dials, allowed: {{allow}}"),
                    Query(_rate("p2p_accepts", "allow"), "accepts, allowed: {{allow}}"),
                ),
            ),
            Panel("Held for peers", "bytes", (Query(_p("p2p_held_bytes{}"), "bytes"),)),
        ),
    ),
    (
        "RPC server",
        (
            Panel("Requests", "reqps", (Query(_rate("rpc_server_requests_total", "method"), "{{method}}"),)),
            Panel(
                "Duration, 95 %",
                "s",
                (Query(_quantile("rpc_server_request_duration_seconds", "method"), "{{method}}"),),
            ),
            Panel("Answers", "reqps", (Query(_rate("rpc_server_responses_total", "error"), "{{error}}"),)),
        ),
    ),
    (
        "Processes",
        (
            Panel(
                "CPU",
                "percentunit",
                (Query("sum by (process) (rate(process_cpu_seconds_total{}[$__rate_interval]))", "{{process}}"),),
            ),
            Panel("Memory", "bytes", (Query("process_proportional_memory_bytes{}", "{{process}}"),)),
            Panel("Space left for databases", "bytes", (Query(_p("disk_free_bytes{}"), "{{database}}"),)),
            Panel("Restarts", "none", (Query("increase(process_restarts_total{}[1h])", "{{process}}"),)),
            Panel("Age of the heartbeat", "s", (Query("process_heartbeat_age_seconds{}", "{{process}}"),)),
            Panel("Tasks that fail", "none", (Query(_p("activity_problems{}"), "{{process}}"),)),
            Panel(
                "Dropped log lines",
                "none",
                (Query(f"increase({_p('log_lines_dropped_total')}{{}}[10m])", "{{process}}"),),
            ),
        ),
    ),
)
"""The panels by row, from top to bottom."""


def text() -> str:
    """Return the dashboard as JSON."""
    return orjson.dumps(dashboard(), option=orjson.OPT_INDENT_2).decode() + "\n"


def expressions() -> Iterator[str]:
    """All queries, without the choice of a node."""
    for _, panels in ROWS:
        for panel in panels:
            yield from (query.expression for query in panel.queries)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it: its data source and its node are chosen at the top."""
    return {
        "uid": "rollup-node",
        "title": "rollup-node",
        "tags": ["rollup-node"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": list(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    chains = f"label_values({_p('chain')}, chain)"
    nodes = f'label_values({_p("chain")}{{chain=~"$chain"}}, instance)'
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        {**_query("chain", "Chain", chains), "includeAll": True, "allValue": ".*", "current": ALL},
        _query("instance", "Node", nodes),
    ]


def _query(name: str, label: str, query: str) -> dict[str, Any]:
    """Return a variable whose values a query of Prometheus gives, asked again when the range of time changes."""
    return {
        "name": name,
        "type": "query",
        "label": label,
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Rows and panels with their places."""
    y = number = 0
    for title, panels in ROWS:
        number += 1
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": []}
        y += 1
        x = 0
        height = max(STAT_HEIGHT if panel.kind == STAT else HEIGHT for panel in panels)
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            number += 1
            yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": height})
            x += panel.width
        y += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": _targets(panel.queries),
    }
    if panel.kind == STAT:
        # A query whose answer is in a label shows the name of its series.
        names = bool(panel.queries[0].legend)
        shown["options"] = {"textMode": "name" if names else "value", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return shown


def _targets(queries: Sequence[Query]) -> list[dict[str, Any]]:
    return [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": _of_node(query.expression),
            "legendFormat": query.legend or "__auto",
        }
        for index, query in enumerate(queries)
    ]


def _of_node(expression: str) -> str:
    """Return an expression with the choice of the node in each of its selectors."""
    return re.sub(r"\{(\}?)", lambda value: "{" + _NODE + (value[1] or ","), expression)


if __name__ == "__main__":
    DASHBOARD.write_text(text())
