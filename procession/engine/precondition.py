"""What a write asks of the version it finds: If-Match and If-None-Match."""

import re
from collections.abc import Sequence

from msgspec import Struct

from procession.engine.errors import Fault, ValidationFailedError, VersionMismatchError

TAG = re.compile(r'"([1-9][0-9]{0,9})"')
ANY = "*"


class Precondition(Struct, frozen=True, kw_only=True):
    """Nothing is asked unless a header said so."""

    versions: frozenset[int] | None = None  # one of these
    exists: bool = False  # any version, but one
    is_new: bool = False  # none at all
    faults: tuple[Fault, ...] = ()  # of headers that cannot be read

    @classmethod
    def of(cls, if_match: Sequence[str], if_none_match: Sequence[str]) -> "Precondition":
        """Read the headers. Of If-None-Match only `*` can mean anything here."""
        faults: list[Fault] = []
        versions: set[int] = set()
        for name, given in (("If-Match", if_match), ("If-None-Match", if_none_match)):
            if len(given) > 1:
                faults.append(Fault(name, "is there twice"))
        if if_match and if_match[0].strip() != ANY:
            tags = [TAG.fullmatch(one.strip()) for one in if_match[0].split(",")]
            versions = {int(one[1]) for one in tags if one}
            if None in tags:
                faults.append(Fault("If-Match", 'must be a version in quotes, as in "3", or *'))
        if if_none_match and if_none_match[0].strip() != ANY:
            faults.append(Fault("If-None-Match", "must be *"))
        return cls(
            versions=frozenset(versions) if versions else None,
            exists=bool(if_match) and not versions,
            is_new=bool(if_none_match),
            faults=tuple(faults),
        )

    def refuse_unread(self) -> None:
        """Refuse headers that cannot be read, once it is known that the thing is there."""
        if self.faults:
            raise ValidationFailedError(self.faults)

    def check(self, version: int | None) -> None:
        """Refuse the write by the version that is there now; None is none."""
        self.refuse_unread()
        if self.versions is not None and version not in self.versions:
            raise VersionMismatchError(version or 0)
        if self.exists and version is None:
            raise VersionMismatchError(0)
        if self.is_new and version is not None:
            raise VersionMismatchError(version)
