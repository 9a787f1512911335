"""Whether an action of a definition can be saved: its type, parameters, policy, capture and undo.

An action, a compensation and a child of a Conditional are one thing, checked by one function; what
the latter two may not have is refused beside it.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from procession.engine.branches import BRANCHES, CONDITIONAL, DEEPEST, BranchError, parse_branch
from procession.engine.catalogue import RESERVED
from procession.engine.findings import Findings, Surroundings
from procession.engine.redaction import storable
from procession.engine.signing_keys import BadSecretError, keys_of
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure

MOST_PARAMETERS = 50
LONGEST_PARAMETER_NAME = 100
LONGEST_PARAMETER = 262_144
MOST_CAPTURES = 20

STEP = ("type", "parameters", "credentialsSet", "unreadableBranches")
POLICY = ("onFailure", "capture", "compensate")

_OUTPUT = re.compile(r"[A-Za-z0-9_]{1,64}")


def check_action(
    value: object, path: str, around: Surroundings, found: Findings
) -> ActionDefinition:
    """One action of the list."""
    action = _step(value, path, found)
    found.warn_of_unknown(action, path, (*STEP, *POLICY))
    type_, parameters = check_step(action, path, around, found)
    policy = action.get("onFailure")
    if policy is not None and policy not in tuple(OnFailure):
        found.refuse(f"{path}.onFailure", f"must be {' or '.join(OnFailure)}")
        policy = None
    return ActionDefinition(
        type=type_,
        parameters=parameters,
        on_failure=OnFailure(policy or OnFailure.CONTINUE),
        capture=_capture(action.get("capture"), f"{path}.capture", type_, around, found),
        compensate=_compensate(action.get("compensate"), f"{path}.compensate", around, found),
    )


def check_step(
    step: Mapping[str, object], path: str, around: Surroundings, found: Findings, depth: int = 1
) -> tuple[str, dict[str, str]]:
    """The type and parameters of an action, a compensation or a child; depth is a Conditional's."""
    type_ = step.get("type")
    types = around.catalogue.types
    if not isinstance(type_, str) or type_ not in types:
        found.refuse(f"{path}.type", f"must be one of {', '.join(sorted(types))}")
        type_ = ""
    path = f"{path}.parameters"
    parameters = _parameters(found.properties(step.get("parameters"), path), path, around, found)
    if known := types.get(type_):
        for one in known.parameters:
            if one.required and not parameters.get(one.name, "").strip():
                found.refuse(f"{path}.{one.name}", "is required")
        for name in parameters:
            if known.parameter(name) is None:
                found.warn(f"{path}.{name}", f"is not a parameter that {type_} declares")
    if type_ == "Webhook":
        _webhook(parameters, path, around, found)
    if type_ == CONDITIONAL:
        _branches(parameters, path, around, found, depth)
    return type_, parameters


def _step(value: object, path: str, found: Findings) -> dict[str, object]:
    if value is None:
        found.refuse(path, "must be an object")
    return found.properties(value, path)


def _parameters(
    values: Mapping[str, object], path: str, around: Surroundings, found: Findings
) -> dict[str, str]:
    given = {name: value for name, value in values.items() if value is not None}
    if len(given) > MOST_PARAMETERS:
        found.refuse(path, f"must be at most {MOST_PARAMETERS}")
    kept: dict[str, str] = {}
    for name, value in given.items():
        if not 1 <= len(name) <= LONGEST_PARAMETER_NAME:
            rule = f"must have a name of 1 to {LONGEST_PARAMETER_NAME} characters"
            found.refuse(f"{path}.{name}", rule)
        elif name.lower() in RESERVED:
            found.refuse(f"{path}.{name}", "is a name that Procession sets itself")
        elif not isinstance(value, str):
            found.refuse(f"{path}.{name}", "must be text")
        elif len(value) > LONGEST_PARAMETER and f"{path}.{name}" not in around.kept:
            found.refuse(f"{path}.{name}", f"must be at most {LONGEST_PARAMETER:,} characters")
        elif storable(value) != value:
            found.refuse(f"{path}.{name}", "must not hold NUL or a lone surrogate")
        else:
            kept[name] = value
    return kept


def _capture(
    value: object, path: str, type_: str, around: Surroundings, found: Findings
) -> tuple[str, ...]:
    names = found.texts(value, path, least=0, most=MOST_CAPTURES)
    known = around.catalogue.types.get(type_)
    for name, index in names.items():
        if not _OUTPUT.fullmatch(name):
            rule = "must be 1 to 64 letters, digits or underscores"
            found.refuse(f"{path}[{index}]", rule)
        elif known and name not in known.outputs:
            found.warn(f"{path}[{index}]", f"is not an output that {type_} declares")
    return tuple(names)


def _compensate(
    value: object, path: str, around: Surroundings, found: Findings
) -> Compensate | None:
    if value is None:
        return None
    undo = found.properties(value, path)
    _refuse_policy(undo, path, "a compensation", found)
    found.warn_of_unknown(undo, path, (*STEP, *POLICY))
    if undo.get("type") == CONDITIONAL:
        found.refuse(f"{path}.type", f"must not be {CONDITIONAL}")
        return None
    type_, parameters = check_step(undo, path, around, found)
    return Compensate(type=type_, parameters=parameters)


def _refuse_policy(step: Mapping[str, object], path: str, what: str, found: Findings) -> None:
    for name in POLICY:
        if step.get(name) is not None:
            found.refuse(f"{path}.{name}", f"is not allowed on {what}")


def _webhook(
    parameters: Mapping[str, str], path: str, around: Surroundings, found: Findings
) -> None:
    url, secret = parameters.get("Url", ""), parameters.get("Secret", "").strip()
    if url.strip() and not url.startswith("{{") and not _is_address(url):
        rule = "must be an absolute http or https address, or begin with a placeholder"
        found.refuse(f"{path}.Url", rule)
    if secret:
        if url.lower().startswith("http:") and not around.insecure_signed_urls:
            found.refuse(f"{path}.Url", "must be https, since the webhook is signed")
        try:
            if f"{path}.Secret" not in around.kept:
                keys_of(secret)
        except BadSecretError:
            rule = "must be one to three secrets: whsec_ and the base64 of 24 to 64 bytes"
            found.refuse(f"{path}.Secret", rule)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and url == url.strip()
    except ValueError:
        return False


def _branches(
    parameters: Mapping[str, str], path: str, around: Surroundings, found: Findings, depth: int
) -> None:
    for branch in BRANCHES:
        text = parameters.get(branch, "")
        if not text.strip():
            continue
        if depth > DEEPEST:
            found.refuse(f"{path}.{branch}", f"is nested more than {DEEPEST} deep")
            continue
        try:
            children = parse_branch(text)
        except BranchError as error:
            found.refuse(f"{path}.{branch}", str(error))
            continue
        for index, child in enumerate(children):
            place = f"{path}.{branch}[{index}]"
            _refuse_policy(child, place, "a child of a Conditional", found)
            found.warn_of_unknown(child, place, (*STEP, *POLICY))
            check_step(child, place, around, found, depth + 1)
