"""The instances and optima of Examples 1 to 9 of Baruah, Burns, Davis, Wu."""

from dataclasses import dataclass

from models.cascade import Classifier, SolveDependence


def k(number: int, time: float, p: float, group: str | None = None) -> Classifier:
    return Classifier(name=f"K{number}", execution_time=time, success_probability=p, group=group)


EXAMPLE_1 = [k(1, 5, 0.6), k(3, 10, 1.0)]
EXAMPLE_2 = [k(1, 5, 0.6), k(2, 3, 0.2), k(3, 10, 1.0)]
EXAMPLE_3 = [k(1, 5, 0.5), k(2, 9, 0.8), k(3, 15, 1.0)]
EXAMPLE_5 = [k(1, 5, 0.5, "1"), k(2, 9, 0.8, "1"), k(3, 8, 0.75, "2"), k(4, 15, 1.0)]
EXAMPLE_6 = [k(1, 5, 0.5, "1"), k(2, 9, 0.8, "1"), k(3, 10, 0.75, "2"), k(4, 20, 1.0)]
EXAMPLE_7 = [k(1, 1, 0.4), k(2, 3, 0.9), k(3, 2, 0.5), k(4, 10, 1.0)]
EXAMPLE_8 = [k(1, 1, 0.5), k(2, 3, 0.8), k(3, 6, 0.99), k(4, 8, 1.0)]


@dataclass(frozen=True, slots=True)
class Example:
    """An instance of the paper, and the cascade and expected duration that it finds optimal."""

    name: str
    classifiers: list[Classifier]
    cascade: str
    expected: float
    dependence: SolveDependence = "grouped"
    deadline: float | None = None


EXAMPLES = [
    Example("1", EXAMPLE_1, "K1 K3", 9),
    Example("2", EXAMPLE_2, "K1 K3", 9),
    Example("3, 4", EXAMPLE_3, "K2 K3", 12, "dependent"),
    Example("5", EXAMPLE_5, "K1 K3 K4", 10.875),
    Example("6", EXAMPLE_6, "K2 K3 K4", 12),
    Example("7", EXAMPLE_7, "K1 K4", 7, "independent", 11),
    Example("7", EXAMPLE_7, "K2 K4", 4, "independent", 13),
    Example("7", EXAMPLE_7, "K1 K2 K4", 3.4, "independent", 14),
    Example("7", EXAMPLE_7, "K1 K2 K3 K4", 3.22, "independent", 16),
    Example("8", EXAMPLE_8, "K1 K4", 5, "dependent", 10),
    Example("8", EXAMPLE_8, "K2 K4", 4.6, "dependent", 11),
    Example("8", EXAMPLE_8, "K1 K2 K4", 4.1, "dependent", 12),
    Example("8", EXAMPLE_8, "K1 K3 K4", 4.08, "dependent", 16),
    Example("8", EXAMPLE_8, "K1 K2 K3 K4", 3.78, "dependent", 18),
    Example("9", EXAMPLE_6, "K1 K3 K4", 12.5, "grouped", 36),
]
