"""Telling one person by email.

A message that may have left is never sent again by itself: only a person's word repeats it.
"""

from collections.abc import Mapping

from typing_extensions import override

from procession.actions.base import Action, Context, Parameter
from procession.engine.outcome import Failed, Outcome, Succeeded, Unknown
from procession.outbound.mail import InDoubt, Mail, Mailer, MailFault
from procession.outbound.mailbox import Mailbox, mailbox


class Email(Action):
    """Send one message to one address."""

    parameters = (
        Parameter(
            "To",
            required=True,
            description="One address, with or without a name before it",
            example="{{data.Name}} <{{data.Email}}>",
        ),
        Parameter(
            "Subject",
            required=True,
            description="The subject, on one line",
            example="{{data.Title}} is published",
        ),
        Parameter(
            "Body",
            required=True,
            description="The message, as HTML",
            example="<p>{{data.Title}} is published.</p>",
        ),
        Parameter(
            "Text",
            description="The message as plain text, for who reads no HTML",
            example="{{data.Title}} is published.",
        ),
        Parameter(
            "ReplyTo",
            description="One address that an answer goes to",
            example="desk@example.com",
        ),
    )

    def __init__(self, mailer: Mailer | None = None) -> None:
        self._mailer = mailer

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        if self._mailer is None:
            return Failed("No provider of email is set (EMAIL__PROVIDER).")
        to = _read(parameters.get("To", ""))
        if to is None:
            return Failed("To is not one email address.")
        reply = parameters.get("ReplyTo", "")
        reply_to = _read(reply) if reply.strip() else None
        if reply.strip() and reply_to is None:
            return Failed("ReplyTo is not one email address.")
        mail = Mail(
            to=to,
            subject=parameters.get("Subject", ""),
            html=parameters.get("Body", ""),
            text=parameters.get("Text", ""),
            reply_to=reply_to,
        )
        try:
            await self._mailer.send(mail, context.http.untried)
        except InDoubt as fault:
            return Unknown(str(fault), response_status=fault.status)
        except MailFault as fault:
            return Failed(str(fault), retryable=True, response_status=fault.status)
        return Succeeded()


def _read(text: str) -> Mailbox | None:
    try:
        return mailbox(text)
    except ValueError:
        return None
