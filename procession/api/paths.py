"""What paths and filters hold: ids and numbers, each of which is written in one way only."""

import re
from typing import Annotated
from uuid import UUID

from fastapi import Path
from pydantic import BeforeValidator, Field

NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")  # of nine digits at most: always an integer to Postgres

DASHED = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
A_UUID = "must be a UUID: 36 characters, of which four are hyphens"


def _number(value: object) -> object:
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        raise ValueError("must be a whole number, in 1 to 9 digits")
    return value


def uuid_in(text: str) -> UUID:
    """The id that a path holds; a ValueError when it is none."""
    return UUID(str(_uuid(text)))


def _uuid(value: object) -> object:
    if isinstance(value, str) and not DASHED.fullmatch(value):
        raise ValueError(A_UUID)
    return value


Dashed = Annotated[UUID, BeforeValidator(_uuid)]
RunId = Annotated[Dashed, Path(alias="id")]
WorkflowId = Annotated[Dashed, Path(alias="id")]
BulkId = Annotated[Dashed, Path(alias="id")]
Ordinal = Annotated[Annotated[int, Field(ge=0)], BeforeValidator(_number), Path()]
Version = Annotated[Annotated[int, Field(ge=1)], BeforeValidator(_number), Path()]
