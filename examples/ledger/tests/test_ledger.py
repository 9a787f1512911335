"""What the actions do within a workflow, without a database, a ledger or a wait."""

import asyncio

from procession_ledger import PostInvoice, VoidInvoice

from procession.actions import Failed
from procession.testing import Answers, Rehearsal, Script, answer

LEDGER = {"Ledger": "https://books.example.com"}
WORKFLOW = {
    "name": "Book an order",
    "triggerContentTypes": ["Order"],
    "triggerEvents": ["Created"],
    "actions": [
        {
            "type": "PostInvoice",
            "parameters": {**LEDGER, "Amount": "{{data.Amount}}"},
            "capture": ["invoiceId"],
            "compensate": {
                "type": "VoidInvoice",
                "parameters": {**LEDGER, "InvoiceId": "{{actions.0.invoiceId}}"},
            },
        },
        {"type": "Email", "parameters": {"To": "a@b.example", "Subject": "Hi", "Body": "Hi"}},
    ],
}
ORDER = {"id": "o-1", "data": {"Amount": 1250}}


def rehearsing(*answers, email=None, workflow=WORKFLOW):
    actions = {
        "PostInvoice": PostInvoice(),
        "VoidInvoice": VoidInvoice(),
        "Email": email or Script(),
    }
    return Rehearsal(workflow, ORDER, actions=actions, http=Answers(*answers))


def test_an_order_is_booked_once_though_the_worker_dies():
    rehearsal = rehearsing(answer(201, {"id": "i-7"}), answer(201, {"id": "i-7"}))
    rehearsal.lose_next()

    assert asyncio.run(rehearsal.finish()) == "Succeeded"
    first, again = rehearsal.http.sent
    assert first.json() == {"amount": "1250", "order": "o-1"}
    assert first.headers["Idempotency-Key"] == again.headers["Idempotency-Key"]
    assert rehearsal.run.outputs == {0: {"invoiceId": "i-7"}}


def test_a_ledger_that_is_down_is_asked_again():
    rehearsal = rehearsing(answer(503), answer(201, {"id": "i-7"}))

    assert asyncio.run(rehearsal.finish()) == "Succeeded"
    waited = rehearsal.tried[-1].at - rehearsal.tried[0].at
    assert waited.total_seconds() == 10


def test_a_refused_mail_takes_the_invoice_back():
    actions = [WORKFLOW["actions"][0], {**WORKFLOW["actions"][1], "onFailure": "Halt"}]
    rehearsal = rehearsing(
        answer(201, {"id": "2026/7"}),
        answer(204),
        email=Script(Failed("no such mailbox")),
        workflow={**WORKFLOW, "actions": actions},
    )
    asyncio.run(rehearsal.finish())

    assert rehearsal.run.compensation == "Compensated"
    assert rehearsal.http.sent[1].url == "https://books.example.com/invoices/2026%2F7"
