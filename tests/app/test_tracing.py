"""Traces are off unless variables switch them on; without a library the server runs all the same."""

import logging

import pytest

from app.observability.tracing import Tracing, open_tracing

ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    "environ",
    [{}, {"OTEL_SERVICE_NAME": "x"}, {**ON, "OTEL_SDK_DISABLED": "true"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}],
)
def test_traces_are_off_by_default(environ: dict[str, str]) -> None:
    assert type(open_tracing("1", environ)) is Tracing


def test_a_protocol_that_is_not_supported_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "parsimony"):
        assert not open_tracing("1", {**ON, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}).is_on
    assert "OTEL_EXPORTER_OTLP_PROTOCOL" in caplog.text


def test_a_missing_library_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.observability.tracing.find_spec", lambda name: None)
    with caplog.at_level(logging.WARNING, "parsimony"):
        assert not open_tracing("1", ON).is_on
    assert "parsimony-server[otel]" in caplog.text


def test_traces_are_on_if_a_receiver_is_named() -> None:
    nowhere = {**ON, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    tracing = open_tracing("1", nowhere)
    assert tracing.is_on
    tracing.close()
