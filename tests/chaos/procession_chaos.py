"""Actions for workers that are killed, stopped and cut off: each tells a receiver that it began.

Installed beside a worker by a folder on its path; `Unguarded` is registered for the control only.
"""

import os
from datetime import timedelta

from procession.actions import Action, Failed, Parameter, Succeeded, Unknown
from procession.outbound.faults import Fault
from procession.queue import late, leases, save


class Telling(Action):
    """Post what is known of the attempt; the receiver's answer is the outcome."""

    parameters = (Parameter("Url", required=True), Parameter("Plan", required=True))

    async def perform(self, context, parameters):
        undo = "" if context.compensation_of is None else "undo"
        place = f"{parameters['RunId']}/{context.ordinal}/{parameters['Attempt']}/{undo}"
        url = f"{parameters['Url']}/{parameters['Plan']}/{place}"
        try:
            headers = {
                "Idempotency-Key": parameters["IdempotencyKey"],
                "X-Worker": str(os.getpid()),
            }
            answer = await context.http.post(url, headers=headers)
        except Fault as fault:
            return self.broken(fault.kind)
        if answer.status_code == 200:
            return Succeeded(response_status=200)
        again = answer.status_code == 503
        return Failed("refused", retryable=again, response_status=answer.status_code)

    def broken(self, kind):
        return Failed(kind, retryable=True)


class Again(Telling):
    repeatable = True


class Once(Telling):
    def broken(self, kind):
        return Unknown(kind)


GUARD = """
          and (step.token is null
               or (run.lease_token = step.token and run.lease_until > clock_timestamp()))"""
HELD = """
      and lease_token = %(token)s and lease_until > clock_timestamp()"""

LEFT_OUT = "from held where not exists (select from renewed where lease_token = token)"

WHOEVERS = """
      and lease_token is not null"""


class Unguarded(Action):
    """Not an action: where it is registered, outcomes are recorded whatever their lease.

    But where nothing is in flight: a worker would end of that before it is caught at a lie. Nor
    does a worker that was stopped cancel what it held: on a busy machine it would do so each time.
    """

    def __init__(self):
        assert GUARD in save.SAVE
        assert HELD in late.LATEST
        assert LEFT_OUT in leases.RENEW
        leases.RENEW = leases.RENEW.replace(LEFT_OUT, f"{LEFT_OUT} and false")
        leases.SELF_STOP = timedelta(hours=1)
        save.SAVE = save.SAVE.replace(GUARD, "")
        late.LATEST = late.LATEST.replace(HELD, WHOEVERS)

    async def perform(self, context, parameters):
        return Failed("not an action")
