"""Builds of plans from columns: in this process, or on a server."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from models import FeaturesSpec, TraceSpec, dataset_from_columns
from parsimony.client import Parsimony
from solvers import KINDS, BuildContext
from solvers.base import FitResult, make_generator
from solvers.partial_traces import prepare_rows

_SPECS: dict[str, Any] = {"trace": TraceSpec, "features": FeaturesSpec}


def build_in_process(
    kind_name: str, spec: Mapping[str, Any], columns: Mapping[str, Any], embeddings: Any, **options: Any
) -> FitResult[Any]:
    """Build a plan; options: ``params`` and ``seed``, as in the API. Raises InvalidRequest."""
    kind = KINDS[kind_name]
    table = dataset_from_columns(_SPECS[spec["kind"]].model_validate(spec), columns, embeddings)
    dataset = prepare_rows(table, options["seed"], takes_partial=kind.takes_partial_traces)
    params = kind.options.model_validate(options["params"])
    return kind.fit(dataset, params, make_generator(options["seed"]), BuildContext())


def build_on_server(
    url: str, kind: str, spec: Mapping[str, Any], columns: Mapping[str, Any], embeddings: Any, **options: Any
) -> FitResult[Any]:
    """Upload the rows, build, and download the plan; both are then deleted there.

    Raises errors of the client.
    """
    import pyarrow
    from pyarrow.parquet import write_table

    from app.serving.local import LocalPlan

    name = f"estimator-{uuid4().hex}"
    with Parsimony(url) as client, TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_table(pyarrow.table(dict(columns)), path)
        client.put_dataset(name, path, spec, embeddings)
        try:
            version = client.build(kind, name, name, **options)["version"]
            try:
                built = LocalPlan(client.export_version(kind, name, version))
            finally:
                client.delete_artifact(kind, name)
        finally:
            client.delete_dataset(name)
    return FitResult(built.plan, built.record.summary, built.record.savings)
