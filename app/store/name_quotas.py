"""Quotas of what is stored under the names of a team, checked by each write of a dataset or an artifact."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.store.client import Pipeline, Store, make_store_key
from app.store.pointers import POINTERS, Id, format_id
from app.store.team_usage import TeamUsage, make_dataset_key
from models.errors import QuotaExceeded
from models.team_quota import NO_QUOTA, STORED, TeamQuota, find_owner_of_name

LEAST_BYTES = 1
"""The bytes that something adds whose size is not known yet."""


@dataclass(frozen=True, slots=True)
class NameQuota:
    """The quota of the names of a team; without a team, nothing is limited.

    Transactions that add to the names of a team watch one key, and change it. So they follow one another, and together
    keep the quota. Those of other teams do not wait for them.
    """

    team: str
    most: TeamQuota

    @property
    def watched(self) -> tuple[str, ...]:
        """The keys that the transaction of a write must watch."""
        is_limited = any(getattr(self.most, name) is not None for name in STORED)
        return (make_store_key("quota-writes", self.team),) if is_limited else ()

    def mark_write(self, pipe: Pipeline) -> None:
        """Queue the change of the watched key, which restarts other writes under the names of the team."""
        for key in self.watched:
            pipe.incr(key)

    def require_dataset_room(self, store: Store, name: str, size: int) -> None:
        """Raise QuotaExceeded if a dataset of these bytes exceeds the quota.

        Of a dataset that is replaced, only the difference counts.
        """
        if self.most.datasets is not None and not store.execute("exists", make_dataset_key(name)):
            self._require_number("datasets", self._usage(store).count_datasets(), self.most.datasets)
        if self.most.bytes is not None:
            usage = self._usage(store)
            sizes = usage.measure_datasets()
            added = size - sizes.get(name, 0)
            self._require_bytes(usage.measure_artifacts() + sum(sizes.values()), added, self.most.bytes)

    def require_artifact_room(self, store: Store, artifact: Id, size: int) -> None:
        """Raise QuotaExceeded if a version of these bytes exceeds the quota."""
        if self.most.artifacts is not None and not store.execute("hexists", POINTERS, format_id(artifact)):
            self._require_number("artifacts", self._usage(store).count_artifacts(), self.most.artifacts)
        if self.most.bytes is not None:
            usage = self._usage(store)
            stored = usage.measure_artifacts() + sum(usage.measure_datasets().values())
            self._require_bytes(stored, size, self.most.bytes)

    def _usage(self, store: Store) -> TeamUsage:
        return TeamUsage(store, self.most.names or "")

    def _require_number(self, what: str, count: int, most: int) -> None:
        if count >= most:
            raise QuotaExceeded(
                f"{what} of team {self.team!r}: {count}, maximum is {most} ({what} in PARSIMONY_TEAM_QUOTAS); delete "
                "one, or replace one"
            )

    def _require_bytes(self, stored: int, added: int, most: int) -> None:
        if added > 0 and stored + added > most:
            raise QuotaExceeded(
                f"bytes of team {self.team!r}: {stored} stored and {added} more, maximum is {most} (bytes in "
                "PARSIMONY_TEAM_QUOTAS); delete datasets or versions of artifacts"
            )


@dataclass(frozen=True, slots=True)
class NameQuotas:
    """The quotas of all teams."""

    by_team: Mapping[str, TeamQuota] = field(default_factory=dict)

    def find_quota(self, name: str) -> NameQuota:
        """Return the quota of the team whose prefix a name has."""
        team = find_owner_of_name(self.by_team, name)
        return NameQuota(team, self.by_team.get(team, NO_QUOTA))


NO_QUOTAS = NameQuotas()
