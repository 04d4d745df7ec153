"""Settings: one class, one prefix, read once; a bad value is refused by its name, and keys are shown nowhere."""

from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import KeyGrant, Settings, misspelled_settings

KEYS = {sha256(b"k").digest(): KeyGrant("decide")}
LINES = """
REDIS_URL=unix:///tmp/x.sock DATA_DIR=/tmp/data HOST=0.0.0.0 PORT=9000 WORKERS=3 API_KEYS=k:decide MAX_BODY_BYTES=4096
MAX_BATCH=5 MAX_CONCURRENT_ITEMS=7 BUILD_QUEUE_LIMIT=6 BUILD_TIMEOUT_S=7 SOLVE_TIMEOUT_S=8.5 DRAIN_S=3.5
DASK_SCHEDULER=tcp://dask:8786 LOG_LEVEL=debug LOG_FORMAT=json LEARNER_MODULES=my_models RATE_LIMIT=2.5
URL=http://127.0.0.1:8000 KEY=sesame ENDPOINT_HOSTS=*.models.example,127.0.0.1:9000
CORS_ORIGINS=https://example.org,http://localhost:8080
"""
CONTRACT = dict(line.split("=", 1) for line in LINES.split())


@pytest.mark.parametrize(("name", "value"), CONTRACT.items())
def test_each_setting_is_read_from_the_environment(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = getattr(Settings(), name.lower())
    monkeypatch.setenv(f"PARSIMONY_{name}", value)
    after = getattr(Settings(), name.lower())
    assert after != before
    kept = after.get_secret_value() if name == "KEY" else str(after)
    assert after == KEYS if name == "API_KEYS" else kept == value


@pytest.mark.parametrize("name", CONTRACT)
def test_an_empty_variable_counts_as_unset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Settings()
    monkeypatch.setenv(f"PARSIMONY_{name}", "")
    assert Settings() == before


def test_a_variable_without_the_prefix_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "1234")
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    settings = Settings()
    assert (settings.host, settings.port, settings.redis_url) == ("127.0.0.1", 8000, None)
    assert (settings.data_dir, settings.api_keys) == (Path("data"), {})


BAD = """
REDIS_URL=http://localhost REDIS_URL=localhost:6379 REDIS_URL=redis://localhost:port REDIS_URL=redis://localhost:99999
PORT=-1 PORT=65536 PORT=http WORKERS=0 WORKERS=65 WORKERS=1.5 MAX_BODY_BYTES=1023 MAX_BODY_BYTES=1073741824
API_KEYS=k API_KEYS=k:admin API_KEYS=:build API_KEYS=k:build,k2 API_KEYS=topsecret:build,topsecret2:admin
API_KEYS=k:build@ API_KEYS=k:build@Search API_KEYS=k:build@a/b API_KEYS=topsecret@team
MAX_BATCH=0 MAX_CONCURRENT_ITEMS=0 BUILD_QUEUE_LIMIT=0 BUILD_TIMEOUT_S=0 SOLVE_TIMEOUT_S=0 DRAIN_S=-1 DRAIN_S=61
RATE_LIMIT=0 RATE_LIMIT=nan RATE_LIMIT=inf ENDPOINT_HOSTS=127.0.0.1:* ENDPOINT_HOSTS=models.example,[::1]:any
CORS_ORIGINS=* CORS_ORIGINS=example.org CORS_ORIGINS=https://example.org/ CORS_ORIGINS=https://*.example.org
CORS_ORIGINS=https://example.org,null URL=example.org:8000 URL=http://example.org:8000/v1 LOG_LEVEL=loud LOG_FORMAT=xml
"""


@pytest.mark.parametrize(("name", "value"), [line.split("=", 1) for line in BAD.split()])
def test_a_bad_value_is_refused_by_its_name(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PARSIMONY_{name}", value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert [error["loc"] for error in caught.value.errors()] == [(name.lower(),)]
    assert "topsecret" not in str(caught.value)
    assert name != "API_KEYS" or f"entry {1 + value.count(',')} " in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        *(("REDIS_URL", url, url) for url in ("redis://h", "redis://:p@h:6380/2", "rediss://h:6379", "unix:///r/x.s")),
        ("LOG_LEVEL", "DEBUG", "debug"),
        ("LOG_FORMAT", "Json", "json"),
    ],
)
def test_every_redis_scheme_and_any_case_is_taken(
    name: str, value: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PARSIMONY_{name}", value)
    assert getattr(Settings(), name.lower()) == read


def test_keys_are_kept_by_their_digest_with_their_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSIMONY_API_KEYS", " alpha:decide@search, be:ta:build ,,gämma:build,a@b:decide")
    assert Settings().api_keys == {
        sha256(b"alpha").digest(): KeyGrant("decide", "search"),
        sha256(b"be:ta").digest(): KeyGrant("build"),
        sha256("gämma".encode()).digest(): KeyGrant("build"),
        sha256(b"a@b").digest(): KeyGrant("decide"),
    }


def test_keys_and_passwords_are_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSIMONY_API_KEYS", "topsecret:build")
    monkeypatch.setenv("PARSIMONY_REDIS_URL", "redis://:topsecret@localhost")
    settings = Settings()
    shown = [repr(settings), str(settings), repr(settings.api_keys), settings.model_dump_json(exclude={"redis_url"})]
    assert "topsecret" not in " ".join(shown)


def test_settings_do_not_change() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.port = 1  # type: ignore[misc]


def test_only_a_name_that_is_nearly_right_is_told_with_the_right_one() -> None:
    for name in (name for name in CONTRACT if len(name) > 3):  # shorter ones resemble much
        for wrong in (name[:-1], name + "S", name.replace("_", "") if "_" in name else name[1:] + name[0]):
            if wrong not in CONTRACT:
                assert misspelled_settings([f"PARSIMONY_{wrong}"]) == {f"PARSIMONY_{wrong}": f"PARSIMONY_{name}"}
    cluster = "SERVICE_HOST SERVICE_PORT PORT_8000_TCP PORT_8000_TCP_ADDR SERVICE_PORT_HTTP KEY REDIS_PORT "
    cluster += "REDIS_SERVICE_HOST DB_PORT UI_PORT"
    assert (
        misspelled_settings([f"PARSIMONY_{name}" for name in (*CONTRACT, *map(str.lower, CONTRACT), *cluster.split())])
        == {}
    )
    assert misspelled_settings(["MAX_BACTH", "PARSIMONIOUS_MAX_BACTH"]) == {}


KEYS_OF_TEAMS = "k:decide@red"


@pytest.mark.parametrize(
    ("keys", "quotas", "named"),
    [
        (KEYS_OF_TEAMS, '{"blue": {"open_builds": 1}}', "'blue'"),
        ("k:decide", '{"red": {"open_builds": 1}}', "'red'"),
        ("k:decide", '{"*": {"open_builds": 1}}', "teams: none"),
        (KEYS_OF_TEAMS, '{"red": {"builds": 1}}', "builds"),
        (KEYS_OF_TEAMS, '{"red": {"open_builds": 0}}', "open_builds"),
        (KEYS_OF_TEAMS, '{"red": {"requests_per_second": 0}}', "requests_per_second"),
        (KEYS_OF_TEAMS, '{"red": {"names": "red-"}, "blue": {"names": "red-x"}}', "'red-x' of team 'blue'"),
        (KEYS_OF_TEAMS, '{"red": {"names": "red-x"}, "blue": {"names": "red-"}}', "'red-' of team 'blue'"),
        (KEYS_OF_TEAMS, '{"red": {"names": "r-"}, "blue": {"names": "r-"}}', "'r-' of team 'red'"),
        (KEYS_OF_TEAMS, '{"*": {"names": "red-"}}', "names"),
        (KEYS_OF_TEAMS, '{"red": {"names": "Red-"}}', "names"),
        (KEYS_OF_TEAMS, '{"red": {"names": ""}}', "names"),
        (KEYS_OF_TEAMS, '{"red": {"names": "%s"}}' % ("r" * 33), "names"),
        (KEYS_OF_TEAMS, '{"red": {"datasets": 1}}', "names"),
        (KEYS_OF_TEAMS, '{"red": {"artifacts": 1}}', "names"),
        (KEYS_OF_TEAMS, '{"red": {"bytes": 1}}', "names"),
        (KEYS_OF_TEAMS, '{"*": {"datasets": 1}}', "names"),
        (KEYS_OF_TEAMS, '{"red": {"names": "red-", "bytes": 0}}', "bytes"),
        (KEYS_OF_TEAMS, '{"red":', "team_quotas"),
        (KEYS_OF_TEAMS, "[]", "team_quotas"),
    ],
)
def test_quotas_that_apply_to_no_team_are_refused(
    keys: str, quotas: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARSIMONY_API_KEYS", keys)
    monkeypatch.setenv("PARSIMONY_TEAM_QUOTAS", quotas)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert named in str(refused.value)


def test_workers_and_commands_have_quotas_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSIMONY_TEAM_QUOTAS", '{"red": {"open_builds": 1}}')
    assert Settings().team_rates() == {}


def test_a_team_without_a_quota_of_its_own_has_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSIMONY_API_KEYS", "a:build@red,b:build@blue,c:build")
    monkeypatch.setenv("PARSIMONY_TEAM_QUOTAS", '{"red": {"open_builds": 3}, "*": {"open_builds": 1}}')
    settings = Settings()
    assert [settings.find_quota(team).open_builds for team in ("red", "blue", "")] == [3, 1, None]
