"""Text messages by Twilio's API, or one like it."""

import base64
from dataclasses import dataclass, field
from urllib.parse import urlencode

from procession.outbound.answer import Answer
from procession.outbound.capture import EXCERPT
from procession.outbound.http import TenantClient

TWILIO = "https://api.twilio.com"
SERVICE = "MG"  # what the id of a service that picks the sender begins with


@dataclass(frozen=True, slots=True, kw_only=True)
class Twilio:
    """Sends by Twilio."""

    sender: str
    account_sid: str
    auth_token: str = field(repr=False)
    base: str = TWILIO

    async def send(self, to: str, message: str, http: TenantClient) -> Answer:
        """Post the message; raises a fault when there is no answer."""
        sender = "MessagingServiceSid" if self.sender.startswith(SERVICE) else "From"
        form = {"To": to, "Body": message, sender: self.sender}
        login = base64.b64encode(f"{self.account_sid}:{self.auth_token}".encode()).decode()
        return await http.post(
            f"{self.base}/2010-04-01/Accounts/{self.account_sid}/Messages.json",
            headers={
                "Authorization": f"Basic {login}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            content=urlencode(form, errors="replace").encode(),
            capture=EXCERPT,
        )
