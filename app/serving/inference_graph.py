"""Export of cascades as KServe ``InferenceGraph``, which calls the classifiers."""

import re
from typing import Any

from models.cascade import CascadeRunDecision
from models.columns import find_duplicate_name
from models.errors import InvalidRequest

_NO_NAME = re.compile(r"[^a-z0-9-]+")


def inference_graph(name: str, decision: CascadeRunDecision, confidence: str) -> dict[str, Any]:
    """Return a cascade as a sequence with conditions on the previous confidence.

    A sequence ends at the first step whose condition does not hold, and returns the current reply. Every step receives
    the original request. Source: the KServe documentation, "Inference Graph", and its CRD
    ``serving.kserve.io/v1alpha1``.

    Args:
        confidence: gjson path of the confidence in a step's reply.
    Raises:
        InvalidRequest: two classifiers would have the same name in Kubernetes, or thresholds depend on the label.
    """
    if any(step.label_thresholds for step in decision.steps):
        raise InvalidRequest(
            "accept thresholds of this cascade depend on the label, which conditions cannot compare: build with "
            "label_thresholds: false"
        )
    names = [make_dns_label(step.classifier) for step in decision.steps]
    repeated = find_duplicate_name(names)
    if repeated is not None:
        raise InvalidRequest(f"classifier names must differ in Kubernetes, got {repeated!r} twice")
    steps: list[dict[str, Any]] = []
    before: float | None = None
    for step in decision.steps:
        written: dict[str, Any] = {
            "name": make_dns_label(step.classifier),
            "serviceName": make_dns_label(step.classifier),
        }
        if steps:
            written |= {"data": "$request", "condition": f"[@this].#({confidence}<{before!r})"}
        steps.append(written)
        before = step.confidence_threshold
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "InferenceGraph",
        "metadata": {"name": make_dns_label(name)},
        "spec": {"nodes": {"root": {"routerType": "Sequence", "steps": steps}}},
    }


def make_dns_label(text: str) -> str:
    """Return a name as a DNS label: lower case, digits, and dashes, at most 63.

    >>> make_dns_label("Pixels (all)"), make_dns_label("few-pixels")
    ('pixels-all', 'few-pixels')
    """
    return _NO_NAME.sub("-", text.lower()).strip("-")[:63].strip("-") or "classifier"
