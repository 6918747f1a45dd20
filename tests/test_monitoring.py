"""Alerts and dashboard in `docker`: their metrics exist, and each alert fires when it should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.rpc.prometheus import mistakes, selectors

FOLDER = Path(__file__).parent.parent / "docker"
ALERTS, TESTS = (FOLDER / "alerts.yaml").read_text(), (FOLDER / "alerts_test.yaml").read_text()
RULES = re.findall(
    r"^      - (?:alert|record): (\S+)\n        expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", ALERTS, re.MULTILINE
)
NAMES = re.findall(r"^      - (?:alert|record): (\S+)$", ALERTS, re.MULTILINE)


def promtool(*words: str) -> str:
    """Return the output of promtool. Skips the test without it."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([program, *words], cwd=FOLDER, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_accepts_its_configuration_and_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", "prometheus.yaml")
    assert f"SUCCESS: {len(NAMES)} rules found" in promtool("check", "rules", "alerts.yaml")


def test_each_alert_fires_when_it_should() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yaml")


def test_each_rule_has_tests_of_both_kinds() -> None:
    cases = re.findall(r'expr: ALERTS\{alertname="(\w+)".*\n.*\n *exp_samples:( \[\]|\n)', TESTS)
    alerts = [name for name in NAMES if ":" not in name]
    assert len(alerts) >= 20
    for name in alerts:
        assert {kind for alert, kind in cases if alert == name} == {" []", "\n"}, name
    assert all(f"expr: {name}\n" in TESTS for name in NAMES if ":" in name)


def test_the_metrics_of_alerts_exist_with_their_labels_and_types() -> None:
    assert [name for name, *_ in RULES] == NAMES
    for name, lines, line in RULES:
        expression = lines or line
        assert name == "NodeDown" or list(selectors(expression))
        assert mistakes(expression) == [], name


def test_mistakes_are_seen() -> None:
    assert mistakes("rate(op_node_default_nonsense_total[5m])") == ["op_node_default_nonsense_total does not exist"]
    assert mistakes("increase(op_node_default_ready[5m])") == ["op_node_default_ready is a gauge"]
    assert mistakes("op_node_default_pipeline_resets_total > 2") == [
        "op_node_default_pipeline_resets_total is a counter"
    ]
    wrong = 'op_node_default_refs_number{layer="l2",kind="x"}'
    assert mistakes(wrong) == ["op_node_default_refs_number has no labels ['kind']"]
    assert mistakes("sum(rate(op_node_default_l1_reorg_depth_bucket[5m]))") == []


@pytest.mark.parametrize(
    "query",
    [
        'op_node_default_refs_number{layer="l1",type=~"l1_head|l1_derived|l1_finalized"}',
        'op_node_default_refs_number{type=~"l2_unsafe|l2_safe|l2_finalized|received_payload"}',
        'time() - op_node_default_refs_time{layer="l2",type="l2_unsafe"}',
        "increase(op_node_default_derivation_errors_total[5m]) > 0",
        "increase(op_node_default_pipeline_resets_total[5m]) > 0",
        "op_node_default_derivation_idle",
        "op_node_default_p2p_peer_count",
        "sum(rate(op_node_default_p2p_gossip_events_total[1m])) by (type)",
        "rate(op_node_default_p2p_accepts[5m])",
        "op_node_default_unsafe_payloads_buffer_len",
        "sum by (le) (rate(op_node_default_rpc_client_request_duration_seconds_bucket[5m]))",
        'rate(op_node_default_l1_request_seconds_sum{request!=""}[5m])',
        'sum by (hit) (rate(op_node_default_l1_source_cache_get{type!=""}[5m]))',
    ],
)
def test_queries_as_in_dashboards_made_for_op_node(query: str) -> None:
    assert list(selectors(query))
    assert mistakes(query) == []


def test_the_dashboard_chooses_a_chain_and_then_its_nodes() -> None:
    variables = json.loads((FOLDER / "grafana" / "dashboard.json").read_text())["templating"]["list"]
    queries = {variable["name"]: variable["query"]["query"] for variable in variables[1:]}
    assert queries == {
        "chain": "label_values(op_node_default_chain, chain)",
        "instance": 'label_values(op_node_default_chain{chain=~"$chain"}, instance)',
    }
    assert all(mistakes(query.removeprefix("label_values(").rpartition(",")[0]) == [] for query in queries.values())


def test_alerts_say_what_to_do() -> None:
    alerts = ALERTS.split("      - alert: ")[1:]
    for alert in alerts:
        assert re.search(r"^        labels: \{severity: (warning|critical)\}$", alert, re.MULTILINE)
        assert "          summary: " in alert and "          do: " in alert


ALERTMANAGER = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]["alertmanager"]


@pytest.mark.parametrize("name", ["webhook", "none"])
def test_alertmanager_accepts_its_configurations(name: str) -> None:
    config = yaml.safe_load((FOLDER / "alertmanager" / f"{name}.yaml").read_text())
    assert config["route"]["receiver"] in {receiver["name"] for receiver in config["receivers"]}
    named = re.findall(r'alertname!?="(\w+)"', str(config.get("inhibit_rules", "")))
    assert set(named) <= set(NAMES) and bool(named) == (name == "webhook")
    program = shutil.which("amtool")
    if program is None:
        pytest.skip("amtool is not installed")
    command = [program, "check-config", f"alertmanager/{name}.yaml"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stderr


@pytest.mark.parametrize(("webhook", "name"), [("https://h.example/KEY", "webhook"), ("", "none")])
def test_alertmanager_gets_the_webhook_in_a_file(webhook: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "alertmanager").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "alertmanager").chmod(0o755)
    (text,) = ALERTMANAGER["command"]
    script = text.replace("$$", "$").replace("/tmp/webhook", f"{tmp_path}/webhook")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ALERT_WEBHOOK": webhook}
    done = subprocess.run([*ALERTMANAGER["entrypoint"], script], env=environment, capture_output=True, text=True)
    assert f"--config.file=/etc/alertmanager/{name}.yaml" in done.stdout.split() and "KEY" not in done.stdout
    assert (tmp_path / "webhook").read_text() == webhook and (tmp_path / "webhook").stat().st_mode & 0o777 == 0o600
    assert "/tmp/webhook" in (FOLDER / "alertmanager" / "webhook.yaml").read_text()


def test_prometheus_sends_its_alerts_to_alertmanager() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    (to,) = config["alerting"]["alertmanagers"]
    assert to["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    assert ALERTMANAGER["ports"] == ["127.0.0.1:9093:9093"]


def test_compose_gives_prometheus_and_grafana_files_that_exist() -> None:
    compose = (FOLDER / "compose.yaml").read_text()
    mounted = {result for result in re.findall(r"- \./(\S+?):/", compose)}
    assert mounted == {
        "prometheus.yaml",
        "alerts.yaml",
        "alertmanager/webhook.yaml",
        "alertmanager/none.yaml",
        "grafana/datasource.yaml",
        "grafana/dashboards.yaml",
        "grafana/dashboard.json",
    }
    assert all((FOLDER / name).is_file() for name in mounted)
