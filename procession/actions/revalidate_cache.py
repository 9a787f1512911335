"""Telling Vercel's cache which pages are out of date."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from typing_extensions import override

from procession.actions.answered import answered, unanswered
from procession.actions.base import Action, Context, Parameter
from procession.engine.outcome import Failed, Outcome, Skipped
from procession.outbound.capture import EXCERPT
from procession.outbound.faults import Fault

VERCEL = "https://api.vercel.com"
UNSET = "VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID are not set."
TARGETS = ("production", "preview")
MOST_TAGS = 16
LONGEST_TAG = 256
BUSY = frozenset({408, 429})
_BETWEEN = re.compile(r"[,\r\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vercel:
    """Whose cache it is."""

    token: str = field(repr=False)
    team_id: str
    project_id: str
    base: str = VERCEL

    @property
    def url(self) -> str:
        query = urlencode({"projectIdOrName": self.project_id, "teamId": self.team_id})
        return f"{self.base}/v1/edge-cache/invalidate-by-tags?{query}"


class RevalidateCache(Action):
    """Have Vercel fetch anew what carries these cache tags."""

    parameters = (
        Parameter(
            "Tags",
            required=True,
            description="1 to 16 cache tags, separated by commas or line breaks",
            example="article-{{id}}, home",
        ),
        Parameter("Target", description="production or preview", example="production"),
    )
    repeatable = True

    def __init__(self, vercel: Vercel | None = None) -> None:
        self._vercel = vercel

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        if self._vercel is None:
            return Skipped(UNSET)
        tags = [tag for one in _BETWEEN.split(parameters.get("Tags", "")) if (tag := one.strip())]
        if not 1 <= len(tags) <= MOST_TAGS or any(len(one) > LONGEST_TAG for one in tags):
            return Failed("Tags are not 1 to 16 of 1 to 256 characters.")
        target = parameters.get("Target", "").strip() or TARGETS[0]
        if target not in TARGETS:
            return Failed("Target is neither production nor preview.")
        try:
            answer = await context.http.post(
                self._vercel.url,
                headers={
                    "Authorization": f"Bearer {self._vercel.token}",
                    "Idempotency-Key": context.idempotency_key,
                },
                json={"tags": tags, "target": target},
                capture=EXCERPT,
            )
        except Fault as fault:
            return unanswered(fault)
        status = answer.status_code
        return answered(status, retryable=status in BUSY or status >= 500)  # noqa: PLR2004
