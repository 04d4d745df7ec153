"""The manifests are valid, agree with the compose file and the image, and leave nothing open that may be shut."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.observability.metrics import Metrics
from app.settings import Settings
from tests.deploy.documents import DEPLOY, image_environment, services

FOLDER = DEPLOY / "kubernetes"
LABEL = "app.kubernetes.io/name"
BY_HAND = {"restore.yaml"}
"""Manifests that are no part of a running house."""
OURS = ("server", "worker")
COMPOSED = {"store": "redis", "server": "server", "worker": "worker"}
"""Which service of the compose file each workload is."""
BYTES = {"Mi": 2**20, "Gi": 2**30, "m": 2**20, "g": 2**30, "mb": 2**20, "gb": 2**30}


def _documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


DOCUMENTS = {
    f"{path.stem}-{document['kind']}-{document['metadata']['name']}": document
    for path in sorted(FOLDER.glob("*.yaml"))
    for document in _documents(path)
}
PODS = {
    document["metadata"]["name"]: document["spec"].get("template", document)["spec"]
    for document in DOCUMENTS.values()
    if document["kind"] in ("Deployment", "StatefulSet", "Pod")
}


def _of_kind(*kinds: str) -> Iterator[dict[str, Any]]:
    return (document for document in DOCUMENTS.values() if document["kind"] in kinds)


def _labels() -> set[str]:
    templates = (document["spec"]["template"] for document in _of_kind("Deployment", "StatefulSet"))
    return {pod["metadata"]["labels"][LABEL] for pod in (*templates, *_of_kind("Pod"))}


def _container(name: str) -> dict[str, Any]:
    (container,) = PODS[name]["containers"]
    fields: dict[str, Any] = container
    return fields


def _environment(name: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in _container(name).get("env", ())}


def _bytes(amount: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(\w+)", amount).groups()  # type: ignore[union-attr]
    return int(number) * BYTES[unit]


def _kustomization() -> dict[str, Any]:
    (kustomization,) = _documents(DEPLOY / "kustomization.yaml")
    return kustomization


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_each_document_is_valid(name: str, version: str) -> None:
    kubernetes_validate.validate(DOCUMENTS[name], version, strict=True)


def test_the_kustomization_has_every_manifest_and_reads_nothing_above_its_folder() -> None:
    kustomization, manifests = _kustomization(), {path.name for path in FOLDER.glob("*.yaml")}
    assert set(kustomization["resources"]) == {f"kubernetes/{name}" for name in manifests - BY_HAND}
    (generated,) = kustomization["configMapGenerator"]
    assert generated == {"name": "store", "files": ["valkey.conf=redis.conf"]}
    named = [*kustomization["resources"], *(entry.partition("=")[2] for entry in generated["files"])]
    assert all((DEPLOY / name).resolve().is_relative_to(DEPLOY) and (DEPLOY / name).is_file() for name in named)


def test_autoscalers_name_deployments_that_have_no_number_of_replicas_and_metrics_that_exist() -> None:
    deployments = {document["metadata"]["name"]: document for document in _of_kind("Deployment")}
    scalers = list(_of_kind("HorizontalPodAutoscaler"))
    assert {scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers} == set(deployments) == {"server", "worker"}
    assert not any("replicas" in document["spec"] for document in deployments.values())
    external = [
        metric["external"]["metric"] for each in scalers for metric in each["spec"]["metrics"] if "external" in metric
    ]
    exposed = {family.name for family in Metrics().registry.collect()}
    assert [metric["name"] for metric in external] == ["parsimony_builds"]
    assert exposed.issuperset(metric["name"] for metric in external)


def test_kustomize_makes_of_it_what_is_valid_too() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: the files are checked by the other tests of this module only")
    done = subprocess.run([kubectl, "kustomize", str(DEPLOY)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    made = list(yaml.safe_load_all(done.stdout))
    for document in made:
        kubernetes_validate.validate(document, "1.33", strict=True)
    (config,) = [document for document in made if document["kind"] == "ConfigMap"]
    assert config["data"] == {"valkey.conf": (DEPLOY / "redis.conf").read_text()}
    (store,) = [document for document in made if document["kind"] == "StatefulSet"]
    assert store["spec"]["template"]["spec"]["volumes"] == [
        {"name": "config", "configMap": {"name": config["metadata"]["name"]}}
    ]


@pytest.mark.parametrize("name", PODS)
def test_each_container_is_hardened(name: str) -> None:
    pod, container = PODS[name], _container(name)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    rights = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == rights
    assert {"hostNetwork", "hostPID", "hostIPC", "initContainers"}.isdisjoint(pod)
    assert not any("hostPath" in volume for volume in pod["volumes"])
    assert container["resources"]["limits"].keys() == {"memory"}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


@pytest.mark.parametrize("name", COMPOSED)
def test_image_command_and_memory_are_those_of_the_compose_file(name: str) -> None:
    container, service = _container(name), services()[COMPOSED[name]]
    assert container["image"] == service["image"]
    assert _bytes(container["resources"]["limits"]["memory"]) == _bytes(service["mem_limit"])
    command = container["args"] if name in OURS else container["command"][: len(service["command"])]
    assert command == service["command"]


@pytest.mark.parametrize("name", OURS)
def test_every_setting_is_one_of_the_service_with_a_valid_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = _environment(name)
    known = {f"PARSIMONY_{setting.upper()}" for setting in Settings.model_fields}
    assert {each for each in environment if each.startswith("PARSIMONY_")} <= known
    for each, given in {**image_environment(), **environment}.items():
        if each.startswith("PARSIMONY_"):
            value = given.get("value", "k:build") if isinstance(given, dict) else str(given)
            monkeypatch.setenv(each, value.replace("$(STORE_PASSWORD)", "word"))
    settings = Settings()
    assert settings.redis_url == "redis://:word@store:6379/0"
    assert settings.log_format == "json"
    assert bool(settings.api_keys) is (name == "server")


def test_secrets_come_from_one_secret_and_are_written_nowhere() -> None:
    references = []
    for name in PODS:
        for variable, given in _environment(name).items():
            if "valueFrom" in given:
                reference = given["valueFrom"]["secretKeyRef"]
                references.append((reference["name"], reference["key"]))
            else:
                assert not re.search("PASSWORD|AUTH|KEY", variable), f"{name} has {variable} in clear"
    assert set(references) == {("parsimony", "store-password"), ("parsimony", "api-keys")}
    assert not list(_of_kind("Secret"))
    assert "secretGenerator" not in _kustomization()
    runbook = (DEPLOY / "README.md").read_text()
    assert all(f"--from-literal={key}=" in runbook for _, key in references)


def test_ports_are_the_same_everywhere() -> None:
    port = int(image_environment()["PARSIMONY_PORT"])
    assert _container("server")["ports"] == [{"name": "http", "containerPort": port}]
    assert _container("store")["ports"] == [{"name": "redis", "containerPort": 6379}]
    assert "\nport 6379\n" in (DEPLOY / "redis.conf").read_text()
    named = {container["ports"][0]["name"] for container in map(_container, PODS) if "ports" in container}
    for service in _of_kind("Service"):
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= named
    (server,) = [d for d in _of_kind("Deployment") if d["metadata"]["name"] == "server"]
    annotations = server["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port)
    assert annotations["prometheus.io/path"] == "/metrics"


def test_the_probes_ask_for_paths_that_there_are() -> None:
    from app.routes import health

    paths = {getattr(route, "path", None) for route in health.router.routes}
    server = _container("server")
    asked = {kind: server[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {each["port"] for each in asked.values()} == {"http"}
    assert {each["path"] for each in asked.values()} <= paths
    # A server whose store is away is not ended for it, and one that loads gets no requests.
    assert {kind: each["path"] for kind, each in asked.items()} == {
        "startup": "/health/live",
        "liveness": "/health/live",
        "readiness": "/health/ready",
    }
    check = services()["redis"]["healthcheck"]["test"][1]
    assert {_container("store")[f"{kind}Probe"]["exec"]["command"][2] for kind in ("startup", "readiness")} == {check}


def test_whatever_is_selected_is_there() -> None:
    labels = _labels()
    assert labels == set(PODS)
    for document in _of_kind("Service"):
        assert document["spec"]["selector"][LABEL] in labels
    for document in _of_kind("Deployment", "StatefulSet", "PodDisruptionBudget"):
        assert document["spec"]["selector"]["matchLabels"] == {LABEL: document["metadata"]["name"]}
    for document in _of_kind("NetworkPolicy"):
        assert set(_selected(document["spec"])) <= labels


def _selected(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if LABEL in part.get("matchLabels", {}):
            yield part["matchLabels"][LABEL]
        for expression in part.get("matchExpressions", ()):
            assert (expression["key"], expression["operator"]) == (LABEL, "In")
            yield from expression["values"]
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _selected(each)


def test_every_pod_has_a_policy_that_closes_both_ways() -> None:
    policies = {document["metadata"]["name"]: document["spec"] for document in _of_kind("NetworkPolicy")}
    assert set(policies) == set(PODS)
    for name, policy in policies.items():
        assert policy["podSelector"] == {"matchLabels": {LABEL: name}}
        assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [name for name in policies if "ingress" in policies[name]] == ["store", "server"]
    (store,) = policies["store"]["ingress"]
    assert sorted(_selected(store)) == sorted(OURS)
    assert store["ports"] == [{"protocol": "TCP", "port": 6379}]
    assert "egress" not in policies["store"]
