"""Messages by Resend's API.

It is sent no idempotency key, so a request that may have arrived is not sent again.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from procession.outbound.answer import Answer, is_success
from procession.outbound.faults import AddressRefused, Fault
from procession.outbound.http import Client
from procession.outbound.mail import InDoubt, Mail, NotSent, Refused, Sending
from procession.outbound.mailbox import Mailbox, on_one_line
from procession.outbound.retry_after import read_retry_after
from procession.outbound.spans import Attributes

RESEND = "https://api.resend.com"
BUSY = frozenset({429, 503})
PHASE = "Resend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resend:
    """Sends by Resend."""

    api_key: str = field(repr=False)
    each: timedelta = timedelta(seconds=100)
    base: str = RESEND

    @property
    def bound(self) -> timedelta:
        return self.each

    @property
    def told(self) -> Attributes:
        return {}  # each try is a call with a span of its own

    async def send(self, sender: Mailbox, mail: Mail, client: Client, sending: Sending) -> None:
        """Post the message; raises MailFault, or AddressRefused."""
        sending.phase = PHASE
        try:
            answer = await client.once(
                "POST",
                f"{self.base}/emails",
                within=self.each,
                progress=sending,
                headers={"Authorization": f"Bearer {self.api_key}"},
                json=_told(sender, mail),
            )
        except AddressRefused:
            raise
        except Fault as fault:
            raise (InDoubt if sending.went else NotSent)(PHASE, fault.kind) from None
        if not is_success(answer.status_code):
            raise _refusal(answer)


def _refusal(answer: Answer) -> NotSent | Refused:
    status = answer.status_code
    if status not in BUSY:
        return Refused(PHASE, f"HTTP {status}", status)
    fault = NotSent(PHASE, f"HTTP {status}", status)
    values = answer.headers.get_list("retry-after")
    fault.retry_after = read_retry_after(values, datetime.now(UTC)) if values else None
    return fault


def _told(sender: Mailbox, mail: Mail) -> dict[str, object]:
    told: dict[str, object] = {
        "from": str(sender),
        "to": [str(mail.to)],
        "subject": on_one_line(mail.subject),
        "html": mail.html,
    }
    if mail.text:
        told["text"] = mail.text
    if mail.reply_to:
        told["reply_to"] = str(mail.reply_to)
    return told
