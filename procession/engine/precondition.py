"""What a write asks of the version it finds: If-Match and If-None-Match."""

import re

from msgspec import Struct

from procession.engine.errors import Fault, ValidationFailedError, VersionMismatchError

TAG = re.compile(r'"([1-9][0-9]{0,9})"')
ANY = "*"


class Precondition(Struct, frozen=True, kw_only=True):
    """Nothing is asked unless a header said so."""

    versions: frozenset[int] | None = None  # one of these
    exists: bool = False  # any version, but one
    is_new: bool = False  # none at all

    @classmethod
    def of(cls, if_match: str | None, if_none_match: str | None) -> "Precondition":
        """Read the headers. Of If-None-Match only `*` can mean anything here."""
        faults: list[Fault] = []
        versions: set[int] = set()
        if if_match is not None and if_match.strip() != ANY:
            tags = [TAG.fullmatch(one.strip()) for one in if_match.split(",")]
            versions = {int(one[1]) for one in tags if one}
            if None in tags:
                faults.append(Fault("If-Match", 'must be a version in quotes, as in "3", or *'))
        if if_none_match is not None and if_none_match.strip() != ANY:
            faults.append(Fault("If-None-Match", "must be *"))
        if faults:
            raise ValidationFailedError(faults)
        return cls(
            versions=frozenset(versions) if versions else None,
            exists=if_match is not None and not versions,
            is_new=if_none_match is not None,
        )

    def check(self, version: int | None) -> None:
        """Refuse the write by the version that is there now; None is none."""
        if self.versions is not None and version not in self.versions:
            raise VersionMismatchError(version or 0)
        if self.exists and version is None:
            raise VersionMismatchError(0)
        if self.is_new and version is not None:
            raise VersionMismatchError(version)
