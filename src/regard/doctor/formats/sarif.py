"""Reports as SARIF 2.1.0 (OASIS standard, 2020), which code review reads.

A rule is a code of the catalogue with its page as help; a result is a finding; what could not be tested is a
notification, because SARIF has no result that says "not known". What passed is not in it: most readers show every
result as an alert.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from importlib import metadata
from typing import TYPE_CHECKING, Any

from regard.doctor.catalogue import CATALOGUE, FAMILIES
from regard.doctor.finding import plain
from regard.doctor.formats.place import Place, place
from regard.doctor.formats.words import safe
from regard.doctor.pages import page

if TYPE_CHECKING:
    from regard.doctor.finding import Finding
    from regard.doctor.report import Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def document(reports: Sequence[Report]) -> dict[str, Any]:
    """One run that holds the findings of all ``reports``."""
    codes = list(dict.fromkeys(one.code for report in reports for one in report.findings))
    results = [_result(one, report, codes.index(one.code)) for report in reports for one in report.findings]
    driver: dict[str, Any] = {"name": "regard", "rules": [_rule(code) for code in codes]}
    version = _version()
    if version:
        driver["version"] = version
    notifications = [
        {
            "level": "note",
            "descriptor": {"id": f"untested/{one.probe}"},
            "message": {"text": safe(f"{report.model}: could not test {one.probe}: {one.why}")},
        }
        for report in reports
        for one in report.untested
    ]
    ran = all(report.exit_status != 2 for report in reports)
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": ran, "toolExecutionNotifications": notifications}],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    known = CATALOGUE[code]
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": f"{known.title}. {known.fix}"},
        "help": {"text": known.fix, "markdown": page(code)},
        "defaultConfiguration": {"level": known.severity},
        "properties": {"tags": [FAMILIES[code[:3]]]},
    }


def _result(one: Finding, report: Report, rule: int) -> dict[str, Any]:
    name = f"{report.model}.{one.module}" if one.module else report.model
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": name, "kind": "object"}]}
    at = place(one.source or report.source)
    if at is not None:
        location["physicalLocation"] = _physical(at)
    identity = sha256("\0".join((one.code, report.model, one.module)).encode(errors="replace")).hexdigest()
    return {
        "ruleId": one.code,
        "ruleIndex": rule,
        "level": one.severity,
        "message": {"text": safe(f"{_place_words(one)}{one.message}. {one.fix}")},
        "locations": [location],
        "partialFingerprints": {"regardCodeModelModule/v1": identity},
        "properties": {"evidence": {key: plain(value) for key, value in one.evidence.items()}},
    }


def _place_words(one: Finding) -> str:
    return f"{one.module}: " if one.module else ""


def _physical(at: Place) -> dict[str, Any]:
    artifact = {"uri": _uri(at)}
    if at.base:
        artifact["uriBaseId"] = f"%{at.base}%"
    return {"artifactLocation": artifact} | ({"region": {"startLine": at.line}} if at.line else {})


def _uri(at: Place) -> str:
    from urllib.parse import quote

    path = quote(at.path, errors="replace")
    if at.base:
        return path
    return f"file://{path}" if path.startswith("/") else f"file:///{path}"


def _version() -> str:
    try:
        return metadata.version("regard")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return ""
