"""Prometheus and Grafana are told about each other and about the server by the right names."""

import re
from typing import Any

import yaml

from app.observability.metrics import Metrics
from tests.deploy.documents import DEPLOY, dashboard, image_environment, services


def _yaml(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text())


def _mounted(service: str) -> dict[str, str]:
    pairs = (volume.split(":") for volume in services()[service]["volumes"])
    return {target: source for source, target, *_ in pairs}


def test_prometheus_reads_its_file_and_asks_the_server() -> None:
    (option,) = [word for word in services()["prometheus"]["command"] if word.startswith("--config.file=")]
    assert _mounted("prometheus")[option.partition("=")[2]] == "./deploy/prometheus.yml"
    (job,) = _yaml("prometheus.yml")["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    port = image_environment()["PARSIMONY_PORT"]
    assert job["static_configs"] == [{"targets": [f"server:{port}"]}]
    (discovery,) = job["dns_sd_configs"]
    assert (discovery["type"], discovery["port"], discovery["names"]) == ("A", int(port), ["more-servers"])
    assert {"server", "more-servers"} <= set(services())


def test_every_alert_is_explained_in_the_runbook_and_asks_for_metrics_and_labels_that_there_are() -> None:
    """Labels by the metrics of the running registry; ``up`` is Prometheus' own."""
    (group,) = _yaml("alerts.yml")["groups"]
    metrics = Metrics()
    labels: dict[str, set[str]] = {"up": {"job"}}
    for collector in vars(metrics).values():
        if hasattr(collector, "_labelnames"):
            labels[collector._name] = set(collector._labelnames)
    runbook = (DEPLOY / "README.md").read_text()
    for rule in group["rules"]:
        assert f"### {rule['alert']}\n" in runbook
        assert rule["annotations"]["runbook"] == f"#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        asked = re.findall(r"\b(up|parsimony_[a-z_]+)(?:\{([^}]*)\})?", rule["expr"])
        assert asked, rule["alert"]
        for name, selector in asked:
            known = labels[re.sub(r"_(total|bucket|sum|count)$", "", name)]
            assert set(re.findall(r"(\w+)\s*=", selector)) <= known, (rule["alert"], name)
        for grouped in re.findall(r"by \(([^)]*)\)", rule["expr"]):
            assert set(grouped.split(", ")) - {"le"} <= set().union(*labels.values())
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"]) == runbook.count("\n### ")


def test_every_metric_has_a_panel_with_its_labels() -> None:
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    labels = {metric._name: set(metric._labelnames) for metric in vars(Metrics()).values() if hasattr(metric, "_name")}
    del labels["parsimony_catalog_refreshed_at_seconds"]  # of which the age is reckoned, which has a panel
    asked = set()
    for query in queries:
        names = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in re.findall(r"\bparsimony_[a-z_]+", query)}
        assert names
        asked |= names
        for name in names - {"parsimony_catalog_refresh_age_seconds"}:
            selected = re.findall(r"(\w+)=~?\"", query)
            grouped = [label for each in re.findall(r"by \(([^)]*)\)", query) for label in each.split(", ")]
            assert {*selected, *grouped} - {"le"} <= labels[name], query
    assert labels.keys() <= asked
