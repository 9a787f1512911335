"""A message as a relay takes it: seven bits, short lines, each ended by CR and LF.

Nothing in it can end a header, or the message itself, before its time.
"""

import re
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid

from procession.outbound.mail import Mail
from procession.outbound.mailbox import Mailbox, on_one_line

POLICY = SMTP.clone(cte_type="7bit")  # not every relay takes eight
_LINE_END = re.compile(rb"\r\n|\n|\r")
_DOT = re.compile(rb"^\.", re.MULTILINE)


def message_of(sender: Mailbox, mail: Mail) -> bytes:
    """The headers and the body."""
    message = EmailMessage(POLICY)
    message["From"] = sender.header
    message["To"] = mail.to.header
    message["Subject"] = on_one_line(mail.subject)
    if mail.reply_to:
        message["Reply-To"] = mail.reply_to.header
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = make_msgid(domain=sender.domain)
    if mail.text:
        message.set_content(_storable(mail.text))
        message.add_alternative(_storable(mail.html), subtype="html")
    else:
        message.set_content(_storable(mail.html), subtype="html")
    return message.as_bytes()


def content_of(message: bytes) -> bytes:
    """The message as it goes over the wire, with the dot that ends it."""
    lines = _LINE_END.sub(b"\r\n", message)
    ended = lines if lines.endswith(b"\r\n") else lines + b"\r\n"
    return _DOT.sub(b"..", ended) + b".\r\n"


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
