"""Export of cascades as KServe ``InferenceGraph``, which calls the classifiers."""

import re
from typing import Any

from models.cascade import CascadeRunDecision
from models.columns import first_repeated
from models.errors import InvalidRequest

_NO_NAME = re.compile(r"[^a-z0-9-]+")


def inference_graph(name: str, decision: CascadeRunDecision, confidence: str) -> dict[str, Any]:
    """Return a cascade as a sequence with conditions on the previous confidence.

    A sequence ends with the current reply at the first step whose condition does not hold. Every step receives the
    original request. Source: the KServe documentation, "Inference Graph", and its CRD ``serving.kserve.io/v1alpha1``.

    Args:
        confidence: gjson path of the confidence in a step's reply.
    Raises:
        InvalidRequest: two classifiers would have the same name in Kubernetes.
    """
    names = [dns_name(step.classifier) for step in decision.steps]
    repeated = first_repeated(names)
    if repeated is not None:
        raise InvalidRequest(f"classifier names must differ in Kubernetes, got {repeated!r} twice")
    steps: list[dict[str, Any]] = []
    before: float | None = None
    for step in decision.steps:
        written: dict[str, Any] = {"name": dns_name(step.classifier), "serviceName": dns_name(step.classifier)}
        if steps:
            written |= {"data": "$request", "condition": f"[@this].#({confidence}<{before!r})"}
        steps.append(written)
        before = step.confidence_threshold
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "InferenceGraph",
        "metadata": {"name": dns_name(name)},
        "spec": {"nodes": {"root": {"routerType": "Sequence", "steps": steps}}},
    }


def dns_name(text: str) -> str:
    """Return a name as a DNS label: lower case, digits, and dashes, at most 63.

    >>> dns_name("Pixels (all)"), dns_name("few-pixels")
    ('pixels-all', 'few-pixels')
    """
    return _NO_NAME.sub("-", text.lower()).strip("-")[:63].strip("-") or "classifier"
