"""Draw docs/demo-savings.svg from the output of ``parsimony demo --json`` on standard input."""

import json
import sys
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: a quarter of the bytes
matplotlib.rcParams["svg.hashsalt"] = "parsimony"  # equal figures give equal bytes


def draw_savings(artifacts: list[dict[str, Any]], path: str) -> None:
    """Draw the cost of each artifact as a share of today's, with the costs per 1,000 items."""
    figure, axes = plt.subplots(figsize=(8, 0.55 * len(artifacts) + 0.9))
    for at, each in enumerate(artifacts):
        savings = each["savings"]
        today, own, unit = savings["today"]["cost"], savings["cost"], savings["unit"]
        axes.barh(at, 100, color="#d8dee6")
        axes.barh(at, 100 * own / today, color="#2a7f9e")
        before, after = (f"{c:,.0f}" if c >= 1000 else f"{c:.3g}" for c in (1000 * today, 1000 * own))
        costs = f"{before} → {after} {unit}, {savings['accuracy']:.1%} correct"
        axes.text(99, at, costs, ha="right", va="center", fontsize=9)
    axes.set_yticks(range(len(artifacts)), [f"{each['kind']} {each['name']}" for each in artifacts])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("cost or time per 1,000 items with Parsimony, % of today's")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw_savings(json.load(sys.stdin), "docs/demo-savings.svg")
