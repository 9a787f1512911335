"""Looking for planted secrets, in every form, in all that is kept, said and answered."""

import base64
import json
import logging
import textwrap
from urllib.parse import quote

from procession.app.logs import HUSHED, Lines, Text

FORMS = {
    "raw": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 within": lambda text: base64.b64encode(f"Basic:{text}:x".encode()).decode(),
    "base64 in lines": lambda text: " ".join(
        textwrap.wrap(base64.b64encode(text.encode()).decode(), 12)
    ),
    "url": lambda text: quote(text, safe=""),
    "url, every sign": lambda text: "".join(f"%{one:02x}" for one in text.encode()),
    "json": lambda text: json.dumps({"it": text, "again": f"a {text} b"}),
}


async def rows_of(conn):
    """All that the database holds but the address, which its own workflow must know."""
    cursor = await conn.execute(
        """select table_name from information_schema.tables
           where table_schema = current_schema() and table_type = 'BASE TABLE'"""
    )
    texts = []
    for (table,) in await cursor.fetchall():
        found = await conn.execute(f'select t::text from "{table}" as t')
        texts += [row for (row,) in await found.fetchall() if table != "workflow_version"]
    return texts


def lines_of(caplog):
    """What the processes log, as `set_up` has it, in both formats."""
    told = [
        one
        for one in caplog.records
        if one.levelno >= logging.WARNING or not one.name.startswith(HUSHED)
    ]
    return [form.format(one) for one in told for form in (Lines(), Text())]


def looked_for(planted):
    """What a reader could make the secret of: it, its forms, and pieces that are long enough."""
    for text in planted:
        for form in FORMS.values():
            yield form(text)
        yield text[: len(text) // 2]
        yield text[len(text) // 2 :]
        middle = base64.b64encode(text.encode()).decode()
        yield middle[: len(middle) // 2]


def found_in(texts, planted):
    whole = "\n".join(texts)
    return [one for one in looked_for(planted) if one in whole]
