"""What paths hold: ids, and numbers that are written in one way only."""

import re
from typing import Annotated
from uuid import UUID

from fastapi import Path
from pydantic import BeforeValidator, Field

NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")  # of nine digits at most: always an integer to Postgres


def _number(value: object) -> object:
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        raise ValueError("must be a whole number")
    return value


RunId = Annotated[UUID, Path(alias="id")]
WorkflowId = Annotated[UUID, Path(alias="id")]
Ordinal = Annotated[Annotated[int, Field(ge=0)], BeforeValidator(_number), Path()]
Version = Annotated[Annotated[int, Field(ge=1)], BeforeValidator(_number), Path()]
