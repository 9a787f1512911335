"""A message as a relay takes it: seven bits, short lines, each ended by CR and LF.

Nothing in it can end a header, or the message itself, before its time. The headers are written
here, since Python's own would decode a value that looks encoded, line breaks and all.
"""

import re
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid

from procession.outbound.mail import Mail
from procession.outbound.mailbox import Mailbox, on_one_line

POLICY = SMTP.clone(cte_type="7bit")  # not every relay takes eight
SHORT = 60  # characters of a header that may stand as they are
_LINE_END = re.compile(rb"\r\n|\n|\r")
_DOT = re.compile(rb"^\.", re.MULTILINE)


def message_of(sender: Mailbox, mail: Mail) -> bytes:
    """The headers and the body."""
    headers = {
        "From": _address(sender),
        "To": _address(mail.to),
        "Subject": _words(on_one_line(mail.subject)),
        **({"Reply-To": _address(mail.reply_to)} if mail.reply_to else {}),
        "Date": format_datetime(localtime()),
        "Message-ID": make_msgid(domain=sender.domain),
    }
    written = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return written.encode("ascii") + _body(mail).as_bytes()


def _address(one: Mailbox) -> str:
    if not one.name:
        return one.address
    name = f'"{one.name}"' if _is_plain(one.name) else _words(one.name)
    return f"{name} <{one.address}>"


def _words(text: str) -> str:
    """The text as the words of a header, encoded where it could be misread."""
    return text if _is_plain(text) else Header(text, "utf-8").encode(linesep="\r\n")


def _is_plain(text: str) -> bool:
    return text.isascii() and len(text) <= SHORT and "=?" not in text


def _body(mail: Mail) -> EmailMessage:
    body = EmailMessage(POLICY)
    if mail.text:
        body.set_content(_encodable(mail.text))
        body.add_alternative(_encodable(mail.html), subtype="html")
    else:
        body.set_content(_encodable(mail.html), subtype="html")
    return body


def content_of(message: bytes) -> bytes:
    """The message as it goes over the wire, with the dot that ends it."""
    lines = _LINE_END.sub(b"\r\n", message)
    ended = lines if lines.endswith(b"\r\n") else lines + b"\r\n"
    return _DOT.sub(b"..", ended) + b".\r\n"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
