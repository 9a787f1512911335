"""The engine alone: what it takes to settle an action of a run of fifty, and to see what is due.

usage: engine.py TIMES. Prints one JSON row: CPU, for there is nothing to wait for. Each time it is
another of the fifty that is in flight, those before it done and those after it waiting.
"""

import json
import sys
import time
from datetime import UTC, datetime

from procession.engine.outcome import Succeeded
from procession.engine.run import claim, due, settle, start, status
from procession.engine.workflow import ActionDefinition, Definition

ACTIONS = 50
NOW = datetime.now(UTC)


def main(times: int) -> None:
    definition = Definition(
        name="Bench",
        trigger_content_types=("Article",),
        trigger_events=("Created",),
        actions=tuple(ActionDefinition(type="Empty") for _ in range(ACTIONS)),
    )
    seconds = 0.0
    for _ in range(times // ACTIONS):
        run = start(definition, NOW)
        following = due(run, definition, NOW)
        while following:
            run = claim(run, following, NOW, repeatable=True)
            began = time.process_time()
            step = settle(run, definition, Succeeded(), now=NOW, jitter=0.0, duration_ms=1)
            following, _ = due(step.run, definition, NOW), status(step.run)
            seconds += time.process_time() - began
            run = step.run
    print(json.dumps({"cpu_ms": round(1000 * seconds / (times // ACTIONS * ACTIONS), 3)}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
