"""Policies on many items: rollouts, trade-off curve, and traffic through the DAG."""

from typing import Annotated

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import ItemId, Items, Label, Value, Vector
from models.policy import EMBEDDING, Acquired


class RolloutItem(Value):
    """A complete item."""

    item: ItemId | None = Field(default=None, description="the item's id; null: its index in the list, from 0, as text")
    embedding: Vector | None = Field(default=None, description=EMBEDDING)
    sensors: dict[Label, Acquired] = Field(description="the values of all sensors")


class Rollout(Value):
    """Answer, cost, and path of one item."""

    item: str = Field(description="the item's id")
    label: str | None = Field(description="the class; null without classes, or if the item is rejected")
    answer: str | None = Field(
        default=None, description="without classes, the classifier whose answer is accepted; null: rejected"
    )
    cost: float = Field(description="mean cost of the acquired sensors, in the artifact's unit")
    path: Items[str] = Field(description="acquired sensors, in order")
    time: float | None = Field(
        default=None,
        description="maximum time of its sensors, in the unit of the sensors' times; null: times are unknown",
    )


class Rollouts(Value):
    """Rollouts of all items."""

    items: Items[Rollout] = Field(description="the items, in the order of the request")
    mean_cost: float = Field(description="mean cost of an item, in the artifact's unit")


class PolicyPoint(Value):
    """Cross-validated accuracy and cost of one trade-off."""

    tradeoff: float | None = Field(
        description="weight of cost against errors, in errors per unit of cost; null: nothing is acquired, or, "
        "without classes and rejects, one classifier always answers"
    )
    cost: float = Field(description="mean cost of an item, in the artifact's unit")
    cost_bound: float = Field(
        description="upper confidence bound of the mean cost, in the artifact's unit, with the confidence of the "
        "build; budgets are compared with it"
    )
    error: float = Field(
        description="error rate on rows that did not choose the curve, from 0 to 1; for graded answers 1 minus their "
        "mean quality, with losses the mean loss as a share of the largest one"
    )
    loss: float | None = Field(
        default=None, description="mean loss of an item, in the artifact's unit, if the dataset has losses"
    )
    sensors: float = Field(description="mean number of acquired sensors")


Count = Annotated[int, Field(ge=0, le=2**53)]
Share = Annotated[float, Field(ge=0, le=1)]


class TrafficCounts(Value):
    """Item counts for each trade-off, on the edges and nodes that have any."""

    sources: Items[Count] = Field(description="node that each edge leaves, by its place in the DAG")
    targets: Items[Count] = Field(description="node that each edge leads to")
    items: Items[Items[Count]] = Field(description="number of items that took each edge, for each point of the curve")
    ends: Items[Count] = Field(description="nodes where items got a wrong answer")
    wrong: Items[Items[Count]] = Field(
        description="number of wrong answers at each of these nodes, for each point of the curve"
    )


class TrafficPoint(PolicyPoint):
    """A point of the curve, and the number of items decided at this point."""

    share: Share = Field(description="share of the items that this point decides, from 0 to 1")


class TrafficNode(Value):
    """A set of acquired sensors; counts of items that reach, leave, or stop at it."""

    sensors: Items[str] = Field(description="the sensors that were acquired, in the dataset's order")
    cost: float = Field(description="their total mean cost, in the artifact's unit")
    items: float = Field(description="number of items that reach the node; fractional for a mixture of two points")
    share: Share = Field(description="share of all items, from 0 to 1")
    stopped: float = Field(description="number of items that are answered here")
    correct: float = Field(description="items that are answered here correctly")
    wrong: float = Field(
        description="items that are answered here incorrectly: graded answers with a quality below one half"
    )


class TrafficEdge(Value):
    """The number of items that continue from one set of sensors to a larger one."""

    source: int = Field(description="place of the node that it leaves, from 0")
    target: int = Field(description="place of the node that it leads to, from 0")
    sensors: Items[str] = Field(description="the sensors that are acquired on it")
    cost: float = Field(description="their mean cost, in the artifact's unit")
    items: float = Field(description="number of items that take the edge; fractional for a mixture of two points")
    share: Share = Field(description="share of all items, from 0 to 1")


class Traffic(Value):
    """Traffic through the DAG under a trade-off or a budget."""

    points: Items[TrafficPoint] = Field(
        description="the point of the curve that decides, or the two points of a budget's mixture"
    )
    cost: float = Field(description="mean cost of an item, in the artifact's unit")
    error: float = Field(
        description="error rate of these items, from 0 to 1, or, for graded answers, 1 minus their mean quality; the "
        "curve was chosen on them, so use the expected values in ``points``"
    )
    rows: int = Field(description="number of counted items")
    nodes: Items[TrafficNode] = Field(
        description="the sets of sensors that items reach: the empty set first, each set before those that contain it"
    )
    edges: Items[TrafficEdge] = Field(description="the steps that items take, by the places of their nodes")


class TrafficReply(Traffic):
    """Traffic through the DAG, and the artifact."""

    unit: str = Field(description="the unit of costs and budgets")
    artifact: ArtifactRef = Field(description="the artifact")
