"""The chart in deploy/helm: its manifests have only fields that Kubernetes knows, and fit the program.

Its templates are rendered here: the part of Helm's language that they use, and an error for any other. Where the
program `helm` is found, a test compares both."""

import hashlib
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.table import OPTIONS

_ACTION = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\(|\)|\||[^\s()|]+)')


class RenderError(Exception):
    """A template fails on purpose, or has something that this module does not know."""


class _Block(NamedTuple):
    kind: str
    expression: str
    body: list[Any]


def render(chart: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests of a chart named `r`, with values over those of its values.yaml."""
    information = yaml.safe_load((chart / "Chart.yaml").read_text())
    root = {
        "Values": _merged(yaml.safe_load((chart / "values.yaml").read_text()), values),
        "Release": {"Name": "r", "Namespace": "default"},
        "Chart": {"AppVersion": information["appVersion"]},
        "Files": chart,
    }
    texts = {path.name: path.read_text() for path in sorted((chart / "templates").iterdir())}
    renderer = _Renderer(root)
    outputs = {name: renderer.render(_parse(text), root) for name, text in texts.items()}
    documents = [doc for name, out in outputs.items() if name.endswith(".yaml") for doc in yaml.safe_load_all(out)]
    return [document for document in documents if document]


def _merged(under: Any, over: Any) -> Any:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}


def _parse(text: str) -> list[Any]:
    """Return texts, actions and blocks in their order."""
    stack = [_Block("", "", [])]
    position, trim = 0, False
    for match in _ACTION.finditer(text):
        before = text[position : match.start()]
        before = before.lstrip() if trim else before
        stack[-1].body.append(before.rstrip() if match[1] else before)
        position, trim = match.end(), match[3] is not None
        word, _, rest = match[2].partition(" ")
        if word in ("if", "with", "range", "define"):
            stack.append(_Block(word, rest, []))
        elif word == "end":
            block = stack.pop()
            stack[-1].body.append(block)
        else:
            stack[-1].body.append(_Block("action", match[2], []))
    if len(stack) != 1:
        raise RenderError("a block has no end")
    stack[0].body.append(text[position:].lstrip() if trim else text[position:])
    return stack[0].body


class _Renderer:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._templates: dict[str, list[Any]] = {}
        self._functions: dict[str, Callable[..., Any]] = {
            "include": lambda name, dot: self.render(self._templates[name], dot),
            "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).removesuffix("...\n").strip(),
            "nindent": lambda width, text: "\n" + re.sub("^(?=.)", " " * width, text, flags=re.MULTILINE),
            "quote": lambda value: '"' + str(value).replace('"', '\\"') + '"',
            "default": lambda fallback, value: value or fallback,
            "required": _required,
            "fail": _fail,
            "not": lambda value: not value,
            "printf": lambda form, *values: form.replace("%s", "{}").format(*values),
            "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
            "regexMatch": lambda pattern, text: re.search(pattern, text) is not None,
        }

    def render(self, nodes: list[Any], dot: Any) -> str:
        """Return the text of nodes with `.` as the value."""
        return "".join(self._node(node, dot) for node in nodes)

    def _node(self, node: Any, dot: Any) -> str:
        if isinstance(node, str):
            return node
        if node.kind == "define":
            self._templates[node.expression.strip('"')] = node.body
            return ""
        value = self._pipeline(node.expression, dot)
        if node.kind == "action":
            return str(value)
        if node.kind == "range":
            return "".join(self.render(node.body, item) for item in value)
        return self.render(node.body, value if node.kind == "with" else dot) if value else ""

    def _pipeline(self, text: str, dot: Any) -> Any:
        return self._commands(iter(_WORD.findall(text)), dot)

    def _commands(self, words: Iterator[str], dot: Any) -> Any:
        """Evaluate commands joined by `|`, up to a closing bracket or the end."""
        parts: list[Any] = []
        for word in words:
            if word == ")":
                break
            if word == "|":
                parts = [_Piped(self._call(parts))]
            elif word == "(":
                parts.append(self._commands(words, dot))
            else:
                parts.append(self._value(word, dot))
        return self._call(parts)

    def _call(self, parts: list[Any]) -> Any:
        piped = [part.value for part in parts if isinstance(part, _Piped)]
        function, *arguments = [part for part in parts if not isinstance(part, _Piped)]
        return function(*arguments, *piped) if callable(function) else function

    def _value(self, word: str, dot: Any) -> Any:
        if word.startswith('"'):
            return word[1:-1].replace('\\"', '"')
        if word.isdigit():
            return int(word)
        if word == ".Files.Get":
            return lambda name: (self._root["Files"] / name).read_text()
        if word.startswith("."):
            for name in filter(None, word.split(".")):
                dot = dot[name]
            return dot
        if word not in self._functions:
            raise RenderError(f"unknown function {word}")
        return self._functions[word]


class _Piped(NamedTuple):
    value: Any


def _required(text: str, value: Any) -> Any:
    return value or _fail(text)


def _fail(text: str) -> Any:
    raise RenderError(text)


ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm"
PAIR = {
    "options": {"network": "op-sepolia", "l1": "https://l1.example/KEY", "p2p.static": ["a", "b"]},
    "engine": {"enabled": True, "image": "example/op-reth:v1.2.3", "extraArgs": ["--full"]},
    "envFrom": [{"secretRef": {"name": "keys"}}],
    "imagePullSecrets": [{"name": "pull"}],
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "storage": {"className": "fast"},
    "p2pService": {"enabled": True, "annotations": {"a": "b"}},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "pair": PAIR,
    "own secret": {"existingOptionsSecret": "mine", "networkPolicy": {"enabled": False}},
}
KINDS = {
    "StatefulSet": "V1StatefulSet",
    "Service": "V1Service",
    "Secret": "V1Secret",
    "NetworkPolicy": "V1NetworkPolicy",
}

DURATION = r"\d+(ms|s|m|h|d)"
LABELS = {r"[a-zA-Z_][\w./-]*": r"(?s).*"}
LABEL = r"[a-zA-Z_]\w*"
OPERATOR_SPECS: dict[str, Any] = {
    "PodMonitor": {
        "selector": {"matchLabels": LABELS},
        "podMetricsEndpoints": [
            {
                "port": r"[a-z-]+",
                "interval": DURATION,
                "relabelings": [
                    {"action": "replace", "sourceLabels": [LABEL], "targetLabel": LABEL, "replacement": r"[\w-]+"}
                ],
            }
        ],
    },
    "PrometheusRule": {
        "groups": [
            {
                "name": r".+",
                "rules": [
                    {
                        **{"record": r"[a-zA-Z_:][\w:]*", "alert": LABEL, "expr": r"(?s).+", "for": DURATION},
                        **{"labels": LABELS, "annotations": LABELS},
                    }
                ],
            }
        ]
    },
}
"""The fields of the Prometheus operator's kinds that the chart uses, with patterns of keys and values."""


def misfits(value: Any, form: Any, path: str) -> list[str]:
    """Return what of a value is not in a form of OPERATOR_SPECS."""
    if isinstance(form, str):
        return [] if isinstance(value, str) and re.fullmatch(form, value) else [f"{path}: {value!r}"]
    if type(value) is not type(form):
        return [f"{path} is no {type(form).__name__}"]
    if isinstance(form, list):
        return [error for n, one in enumerate(value) for error in misfits(one, form[0], f"{path}[{n}]")]
    errors = []
    for key, one in value.items():
        fitting = next((pattern for pattern in form if re.fullmatch(pattern, key)), None)
        errors += [f"{path} has no field {key}"] if fitting is None else misfits(one, form[fitting], f"{path}.{key}")
    return errors


@pytest.fixture(params=CASES)
def manifests(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return render(CHART, CASES[request.param])


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def containers(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    (stateful,) = of_kind(manifests, "StatefulSet")
    return {container["name"]: container for container in stateful["spec"]["template"]["spec"]["containers"]}


def unknown_fields(value: Any, type_name: str, path: str) -> list[str]:
    """Return what is wrong with a value by the types of the Kubernetes client."""
    models = pytest.importorskip("kubernetes.client.models", reason="kubernetes is not installed")
    if (item := re.fullmatch(r"[Ll]ist\[(.*)\]", type_name)) is not None:
        if not isinstance(value, list):
            return [f"{path} is no list"]
        return [error for n, one in enumerate(value) for error in unknown_fields(one, item[1], f"{path}[{n}]")]
    if (item := re.fullmatch(r"[Dd]ict[\[(]str, (.*)[\])]", type_name)) is not None:
        return [error for key, one in value.items() for error in unknown_fields(one, item[1], f"{path}.{key}")]
    plain = {"str": str, "int": int, "bool": bool, "object": object}
    if type_name in plain:
        return [] if isinstance(value, plain[type_name]) else [f"{path} is no {type_name}: {value!r}"]
    model = getattr(models, type_name)
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    if not isinstance(value, dict):
        return [f"{path} is no mapping"]
    errors = [f"{path} has no field {name}" for name in value if name not in names]
    for name in value.keys() & names.keys():
        errors += unknown_fields(value[name], model.openapi_types[names[name]], f"{path}.{name}")
    return errors


def test_kubernetes_knows_every_field(manifests: list[dict[str, Any]]) -> None:
    known = [manifest for manifest in manifests if manifest["kind"] in KINDS]
    assert [error for one in known for error in unknown_fields(one, KINDS[one["kind"]], one["kind"])] == []
    others = {manifest["kind"] for manifest in manifests} - set(KINDS)
    assert others <= OPERATOR_SPECS.keys()
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(names) == len(set(names))


def test_a_field_that_is_unknown_is_seen() -> None:
    assert unknown_fields({"spec": {"port": [], "ports": [{"port": "1"}]}}, "V1Service", "S") == [
        "S.spec has no field port",
        "S.spec.ports[0].port is no int: '1'",
    ]


def test_the_prometheus_operator_knows_every_field() -> None:
    of_operator = [manifest for manifest in render(CHART, PAIR) if manifest["kind"] in OPERATOR_SPECS]
    assert {manifest["kind"] for manifest in of_operator} == OPERATOR_SPECS.keys()
    for manifest in of_operator:
        assert manifest.keys() == {"apiVersion", "kind", "metadata", "spec"}
        assert manifest["apiVersion"] == "monitoring.coreos.com/v1"
        assert misfits(manifest["spec"], OPERATOR_SPECS[manifest["kind"]], manifest["kind"]) == []
        if manifest["kind"] == "PrometheusRule":
            for rule in (rule for group in manifest["spec"]["groups"] for rule in group["rules"]):
                assert "expr" in rule and ("record" in rule) != ("alert" in rule)
    assert misfits({"groups": [{"rule": []}, {"rules": [{"for": 5}]}]}, OPERATOR_SPECS["PrometheusRule"], "R") == [
        "R.groups[0] has no field rule",
        "R.groups[1].rules[0].for: 5",
    ]


def test_the_node_takes_its_options(manifests: list[dict[str, Any]], tmp_path: Path) -> None:
    for secret in of_kind(manifests, "Secret"):
        (tmp_path / "node.yaml").write_text(secret["stringData"]["node.yaml"])
        words = [word for word in containers(manifests)["node"]["args"] if not word.startswith("--config=")]
        parsed = read_options([*words, f"--config={tmp_path}/node.yaml"], {})
        assert parsed.errors == () and parsed.values["network"] == "op-sepolia" and parsed.values["metrics.enabled"]
    default = {name: int(OPTIONS[f"{name}.port"].default or 0) for name in ("rpc", "metrics")}
    ports = {port["name"]: port["containerPort"] for port in containers(manifests)["node"]["ports"]}
    assert {name: ports[name] for name in default} == default


def test_the_parts_fit_each_other(manifests: list[dict[str, Any]]) -> None:
    (stateful,) = of_kind(manifests, "StatefulSet")
    pod = stateful["spec"]["template"]
    assert stateful["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    services = {service["metadata"]["name"]: service["spec"] for service in of_kind(manifests, "Service")}
    assert services[stateful["spec"]["serviceName"]]["clusterIP"] == "None"
    ports = {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}
    assert all(port["targetPort"] in ports for spec in services.values() for port in spec["ports"])
    for policy in of_kind(manifests, "NetworkPolicy"):
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]}
    mounted = {mount["name"] for container in pod["spec"]["containers"] for mount in container["volumeMounts"]}
    assert mounted == volumes
    assert all(len(name) <= 15 for name in ports), "Kubernetes refuses longer names of ports"


def test_nothing_runs_as_root_or_writes_outside_its_volumes(manifests: list[dict[str, Any]]) -> None:
    (stateful,) = of_kind(manifests, "StatefulSet")
    spec = stateful["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]} and "memory" in container["resources"]["limits"]


def test_the_probes_are_those_of_the_page(manifests: list[dict[str, Any]]) -> None:
    node = containers(manifests)["node"]
    paths = {name: node[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    for name, path in paths.items():
        probe = node[f"{name}Probe"]
        seconds = probe["periodSeconds"] * probe["failureThreshold"]
        assert f"| `{name}Probe` | `GET {path}` | {seconds} s |" in page


def test_prometheus_gets_the_alerts_and_the_job_that_they_name() -> None:
    manifests = render(CHART, PAIR)
    (rule,) = of_kind(manifests, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((ROOT / "docker" / "alerts.yaml").read_text())
    (monitor,) = of_kind(manifests, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint.keys() == {"port", "interval", "relabelings"}
    assert {"action": "replace", "targetLabel": "job", "replacement": "rollup-node"} in endpoint["relabelings"]
    assert 'up{job="rollup-node"}' in (CHART / "alerts.yaml").read_text()


@pytest.mark.parametrize("image", ["", "op-reth", "op-reth:latest", "host:5000/op-reth"])
def test_an_engine_without_a_version_is_refused(image: str) -> None:
    with pytest.raises(RenderError, match=r"engine\.image is the image of an engine with its version"):
        render(CHART, {"engine": {"enabled": True, "image": image}})
    assert render(CHART, {"engine": {"enabled": True, "image": f"h:5000/op-reth@sha256:{32 * 'ab'}"}})


def test_the_versions_are_those_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert chart["version"] == chart["appVersion"] == version


def test_what_is_unknown_in_a_template_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(CHART, tmp_path / "chart")
    (tmp_path / "chart" / "templates" / "x.yaml").write_text('{{ lookup "v1" }}')
    with pytest.raises(RenderError, match="unknown function lookup"):
        render(tmp_path / "chart", {})


def helm(*words: str) -> str:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is not on PATH: the templates are rendered by this module")
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_helm_accepts_the_chart() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize("case", CASES)
def test_helm_renders_the_same(case: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(CASES[case]))
    words = ("template", "r", str(CHART), "--kube-version=1.31.0", f"--values={tmp_path}/values.yaml")
    by_helm = [document for document in yaml.safe_load_all(helm(*words)) if document]
    ours = render(CHART, CASES[case])
    for manifest in (*by_helm, *ours):
        if manifest["kind"] == "StatefulSet":
            # Of a text that each writes in its own style.
            del manifest["spec"]["template"]["metadata"]["annotations"]["checksum/options"]
    assert sorted(by_helm, key=str) == sorted(ours, key=str)
