"""Reading the environment, and the rules between its variables.

What is out of range, or breaks a rule, stops the start with exit status 2, and a line for each.
"""

import sys

from pydantic import ValidationError

from procession.app.budgets import broken_budgets
from procession.app.environment import faults_of, takes
from procession.app.providers import missing
from procession.app.settings import Process, Settings


class SettingsError(Exception):
    """The environment is not one to start in. A line for each fault."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def read(process: Process, **instead: str) -> Settings:
    """The settings of this process: from the environment, and what is given in its place."""
    settings = in_range(**instead)
    if faults := broken_rules(settings, process):
        raise SettingsError(faults)
    return settings


def in_range(**instead: str) -> Settings:
    """The settings, each in its range, whatever they get wrong together."""
    try:
        return Settings.model_validate(instead)
    except ValidationError as error:
        raise SettingsError(faults_of(Settings, error)) from None


def read_or_exit(process: Process, **instead: str) -> Settings:
    """The same, where a fault ends the process with status 2 and a line for each."""
    try:
        return read(process, **instead)
    except SettingsError as error:
        sys.stderr.write(f"procession {process} cannot start:\n")
        sys.stderr.writelines(f"  {fault}\n" for fault in error.faults)
        raise SystemExit(2) from None


def broken_rules(settings: Settings, process: Process) -> list[str]:
    """What the variables get wrong together, though each is in its range."""
    faults: list[str] = []
    if settings.database__pool_min > settings.database__pool_max:
        faults.append(
            f"DATABASE__POOL_MIN={settings.database__pool_min}: takes at most "
            f"DATABASE__POOL_MAX ({settings.database__pool_max})"
        )
    if process in {"migrate", "key create", "export", "sweep"}:
        return faults
    if not settings.secrets__keys:
        field = Settings.model_fields["secrets__keys"]
        faults.append(f"SECRETS__KEYS is not set: takes {takes(field)}")
    if process == "rekey":
        return faults
    faults += _broken_by_tries(settings)
    if settings.auth__oidc__issuer and not settings.auth__oidc__audience:
        faults.append(
            "AUTH__OIDC__AUDIENCE is not set: takes whom the tokens of AUTH__OIDC__ISSUER must "
            "be for"
        )
    if process != "api":
        faults += _broken_by_worker(settings)
    return faults


def _broken_by_tries(settings: Settings) -> list[str]:
    faults: list[str] = []
    delay = settings.workflows__outbound__base_delay_milliseconds
    ceiling = settings.workflows__outbound__max_delay_seconds
    if delay > 1000 * ceiling:
        faults.append(
            f"WORKFLOWS__OUTBOUND__BASE_DELAY_MILLISECONDS={delay}: takes at most "
            f"WORKFLOWS__OUTBOUND__MAX_DELAY_SECONDS ({ceiling:g} s)"
        )
    failures = settings.workflows__outbound__breaker_failures
    window = settings.workflows__outbound__breaker_window
    if window < failures:
        faults.append(
            f"WORKFLOWS__OUTBOUND__BREAKER_WINDOW={window}: takes at least "
            f"WORKFLOWS__OUTBOUND__BREAKER_FAILURES ({failures})"
        )
    return faults


def _broken_by_worker(settings: Settings) -> list[str]:
    faults: list[str] = []
    needed = settings.workflows__runner_concurrency + 2
    if settings.database__pool_max < needed:
        faults.append(
            f"DATABASE__POOL_MAX={settings.database__pool_max}: takes at least {needed}, which is "
            f"WORKFLOWS__RUNNER_CONCURRENCY ({needed - 2}) and 2 more"
        )
    return faults + missing(settings) + broken_budgets(settings)
