"""``docs/reference/api.md`` lists the operations of OpenAPI, and the limits of each kind."""

import re
from pathlib import Path

from app.main import create_api
from app.observability.metrics import Metrics
from app.routes.kinds import routes_of
from app.settings import Settings
from solvers import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text()
WITHOUT_GET = {"GET /v1/portfolios/{name}/decision"}


def test_the_page_lists_every_operation_and_no_other() -> None:
    listed = set[str]()
    for method, path in re.findall(r"^\| `(GET|POST|PUT|DELETE) (/[^`]*)`", PAGE, re.M):
        plurals = [kind.plural for kind in KINDS.values()] if "{kinds}" in path else [""]
        listed |= {f"{method} {path.replace('{kinds}', plural)}" for plural in plurals}
    document = create_api(Settings(), Metrics(), [routes_of(kind) for kind in KINDS.values()]).openapi()
    served = {f"{method.upper()} {path}" for path, operations in document["paths"].items() for method in operations}
    assert listed - WITHOUT_GET == served


def test_the_page_says_which_limits_each_kind_supports() -> None:
    (head,) = re.findall(r"^\| limit \| meaning \| (.*) \|$", PAGE, re.M)
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:[^|]*) \|((?: (?:yes)? ?\|){5})$", PAGE, re.M))
    for place, name in enumerate(head.split(" | ")):
        said = {limit for limit, cells in rows.items() if cells.split("|")[place].strip() == "yes"}
        fields = KINDS[name].query.model_fields.keys()
        assert said == {limit for limit in rows if limit in fields}
