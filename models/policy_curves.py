"""What many items make of a policy: rollouts, the curve of its trade-offs, and the traffic through its DAG."""

from typing import Annotated

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import ItemId, Items, Label, Value, Vector
from models.policy import EMBEDDING, Acquired


class RolloutItem(Value):
    """A complete item."""

    item: ItemId | None = Field(default=None, description="the item's id; null: its place in the list, from 0, as text")
    embedding: Vector | None = Field(default=None, description=EMBEDDING)
    sensors: dict[Label, Acquired] = Field(description="the value of every sensor, acquired or not")


class Rollout(Value):
    """What became of one item."""

    item: str = Field(description="the item's id")
    label: str | None = Field(description="the class; null where answers have no classes")
    answer: str | None = Field(
        default=None, description="where answers have no classes, the classifier whose answer is taken"
    )
    cost: float = Field(description="what the sensors acquired cost, on average, in the artifact's unit")
    path: Items[str] = Field(description="the sensors acquired, in order")
    time: float | None = Field(
        default=None,
        description="how long that takes at most, in the unit of the sensors' times; null: times are not known",
    )


class Rollouts(Value):
    """What became of all items."""

    items: Items[Rollout] = Field(description="the items, in the order they came")
    mean_cost: float = Field(description="what an item cost on average, in the artifact's unit")


class PolicyPoint(Value):
    """What one trade-off reaches on items that the member deciding had not learned from."""

    tradeoff: float | None = Field(
        description="what a unit of cost weighs against errors, in errors per unit of cost; null: nothing is acquired, "
        "or, where answers have no classes, one classifier always answers"
    )
    cost: float = Field(description="what an item cost on average, in the artifact's unit")
    cost_bound: float = Field(
        description="the expected cost is below this with the confidence built with, in the artifact's unit; budgets "
        "are held against it"
    )
    error: float = Field(
        description="the share of items, from 0 to 1, that is classified wrongly, or, where answers are graded, 1 less "
        "their mean quality: of rows that had not chosen the curve"
    )
    sensors: float = Field(description="mean number of acquired sensors")


Count = Annotated[int, Field(ge=0, le=2**53)]
Share = Annotated[float, Field(ge=0, le=1)]


class TrafficCounts(Value):
    """What a build counts: the traffic under each trade-off of the curve, on the edges and nodes that have any."""

    sources: Items[Count] = Field(description="for each edge the node it leaves, as a place in the DAG")
    targets: Items[Count] = Field(description="for each edge the node it leads to")
    items: Items[Items[Count]] = Field(description="for each point of the curve, and each edge, the items that took it")
    ends: Items[Count] = Field(description="the nodes at which items were answered wrongly")
    wrong: Items[Items[Count]] = Field(description="for each point of the curve, and each such node, how many were")


class TrafficPoint(PolicyPoint):
    """A point of the curve, and how many items it decides for."""

    share: Share = Field(description="the share of the items, from 0 to 1, that this point decides for")


class TrafficNode(Value):
    """A set of acquired sensors, and what becomes of the items that come to it."""

    sensors: Items[str] = Field(description="the sensors that were acquired, in the dataset's order")
    cost: float = Field(description="what they cost together, on average, in the artifact's unit")
    items: float = Field(description="how many items come here; a mixture of two points makes fractions")
    share: Share = Field(description="the same as a share of all items, from 0 to 1")
    stopped: float = Field(description="how many of them are answered here, right and wrong together")
    correct: float = Field(description="items that are answered here correctly")
    wrong: float = Field(
        description="items that are answered here incorrectly: graded answers where their quality is below one half"
    )


class TrafficEdge(Value):
    """Items on their way from one set of sensors to a larger one."""

    source: int = Field(description="the place, from 0, of the node that it leaves")
    target: int = Field(description="the place, from 0, of the node that it leads to, which is larger")
    sensors: Items[str] = Field(description="the sensors that are acquired on it")
    cost: float = Field(description="what these cost, on average, in the artifact's unit")
    items: float = Field(description="how many items take it; a mixture of two points makes fractions")
    share: Share = Field(description="the same as a share of all items, from 0 to 1")


class Traffic(Value):
    """The DAG as far as items come, under a trade-off or a budget."""

    points: Items[TrafficPoint] = Field(
        description="the point of the curve that decides, or the two that a budget mixes"
    )
    cost: float = Field(description="what an item cost on average, in the artifact's unit")
    error: float = Field(
        description="share of these items that were answered incorrectly, from 0 to 1, or, where answers are graded, "
        "1 less their mean quality; the curve was chosen on them, too; points has the expected values"
    )
    rows: int = Field(description="the number of items that were counted")
    nodes: Items[TrafficNode] = Field(
        description="the sets of sensors that items come to: the empty one first, each before those that contain it"
    )
    edges: Items[TrafficEdge] = Field(description="the steps that items take, by the places of their nodes")


class TrafficReply(Traffic):
    """Traffic together with the artifact."""

    unit: str = Field(description="the unit of costs and budgets")
    artifact: ArtifactRef = Field(description="the artifact")
