"""Telling one person by a text message.

Its provider takes no key by which to tell a repeat, so one that may have left is not repeated.
"""

import re
from collections.abc import Mapping

from typing_extensions import override

from procession.actions.answered import answered, unanswered
from procession.actions.base import Action, Context, Parameter
from procession.engine.outcome import Failed, Outcome, Unknown
from procession.outbound.faults import Fault
from procession.outbound.http import TenantClient
from procession.outbound.retry import IN_DOUBT
from procession.outbound.sms import Twilio

PERMANENT = frozenset({400, 401, 403, 404})
LONGEST = 1_600
_NUMBER = re.compile(r"\+[1-9][0-9]{1,14}", re.ASCII)


class Sms(Action):
    """Send one text message to one number."""

    parameters = (
        Parameter(
            "To",
            required=True,
            description="The number: a plus, the country code and the rest, digits only",
            example="+639171234567",
        ),
        Parameter(
            "Message",
            required=True,
            description="The text, of at most 1,600 characters",
            example="{{data.Title}} is published.",
        ),
    )

    def __init__(self, provider: Twilio | None = None) -> None:
        self._provider = provider

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        to, message = parameters.get("To", ""), parameters.get("Message", "")
        if self._provider is None:
            return Failed("No provider of text messages is set (SMS__PROVIDER).")
        if not _NUMBER.fullmatch(to):
            return Failed("To is no number in E.164 form.")
        if not 1 <= len(message) <= LONGEST:
            return Failed("Message does not have 1 to 1,600 characters.")
        return await _sent(self._provider, to, message, context.http)


async def _sent(provider: Twilio, to: str, message: str, http: TenantClient) -> Outcome:
    try:
        answer = await provider.send(to, message, http)
    except IN_DOUBT as fault:
        return Unknown(fault.kind)
    except Fault as fault:
        return unanswered(fault)
    return answered(answer.status_code, retryable=answer.status_code not in PERMANENT)
