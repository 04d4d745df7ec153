"""Recordings survive crashes: what a server acknowledged is there after it was killed with everything it started."""

from pathlib import Path

from tests.conftest import upload
from tests.support.servers import running_server, start_server, wait_for


def test_acknowledged_rows_and_truths_survive_the_death_of_all_processes(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    server.wait_until_ready()
    upload(server)
    recording = {"artifact": {"kind": "cascade", "name": "trace"}}
    assert server.client.put("/v1/recordings/kept", json=recording).status_code == 201
    call = {"classifier": "fast", "label": "cat", "cost": 1.0}
    for number in range(20):
        rows = {"items": [{"id": f"{number}-{place}", "calls": [call]} for place in range(50)]}
        assert server.client.post("/v1/recordings/kept/rows", json=rows).json() == {"accepted": 50}
    truths = {"items": [{"id": "19-49", "truth": "cat"}]}
    assert server.client.post("/v1/recordings/kept/truths", json=truths).json() == {"accepted": 1}
    server.kill(whole_tree=True)
    with running_server(tmp_path) as again:
        shown = again.client.get("/v1/recordings/kept").json()
        assert (shown["rows"], shown["rows_with_truth"]) == (1000, 1)
        wait_for(lambda: len(list(tmp_path.glob("recordings/*/rows/*.parquet"))) == 1, 10)  # its log has no writer
        assert again.client.get("/v1/recordings/kept").json()["rows"] == 1000
