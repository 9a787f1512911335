"""Booking invoices in a ledger that is reached over HTTP."""

from collections.abc import Mapping
from urllib.parse import quote

from procession.actions import Action, Context, Failed, Outcome, Parameter, Succeeded

LEDGER = Parameter(
    "Ledger", required=True, description="Where it is", example="https://books.example.com"
)
API_KEY = Parameter("ApiKey", credential=True, description="What lets us in")
CREATED, NO_CONTENT, NOT_FOUND, BROKEN = 201, 204, 404, 500


class PostInvoice(Action):
    """Book an invoice."""

    parameters = (LEDGER, API_KEY, Parameter("Amount", required=True, example="{{data.Amount}}"))
    outputs = ("invoiceId",)
    repeatable = True  # the ledger takes one invoice for each Idempotency-Key

    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        answer = await context.http.post(
            f"{parameters['Ledger']}/invoices",
            headers={
                "Authorization": f"Bearer {parameters.get('ApiKey', '')}",
                "Idempotency-Key": context.idempotency_key,
            },
            json={"amount": parameters["Amount"], "order": context.entry.id},
        )
        if answer.status_code == CREATED:
            return Succeeded({"invoiceId": answer.json()["id"]})
        return failed(answer.status_code)


class VoidInvoice(Action):
    """Take an invoice back."""

    parameters = (LEDGER, API_KEY, Parameter("InvoiceId", required=True))
    repeatable = True  # one that is gone is gone

    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        invoice = quote(parameters["InvoiceId"], safe="")
        answer = await context.http.delete(
            f"{parameters['Ledger']}/invoices/{invoice}",
            headers={"Authorization": f"Bearer {parameters.get('ApiKey', '')}"},
        )
        if answer.status_code in (NO_CONTENT, NOT_FOUND):
            return Succeeded()
        return failed(answer.status_code)


def failed(status: int) -> Failed:
    return Failed(
        f"The ledger answered {status}.", retryable=status >= BROKEN, response_status=status
    )
