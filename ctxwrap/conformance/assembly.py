"""Checks of working-set manifests and assembly reports against the Context Assembly Protocol."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ctxwrap.conformance.checks import Check, Finding, at, describe, is_count, is_share, is_time
from ctxwrap.errors import InvalidManifest
from ctxwrap.session.abi.names import parsed
from ctxwrap.tokens.measure import STRATEGIES
from ctxwrap.workingset.manifest import PROTOCOL, ROLES
from ctxwrap.workingset.safe_yaml import mapping_in, path_fault

_LINE = re.compile(r" in line (\d+)")
_AUTHORS = ("model", "orchestrator", "user")
_BUDGET = ("max_tokens", "reserved_for_response", "effective")
_REPORT_BUDGET = ("max", "used", "remaining")


@dataclass(frozen=True, slots=True)
class ManifestInput:
    value: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def part(self, name: str) -> dict[str, Any]:
        part = self.value.get(name)
        return part if isinstance(part, dict) else {}

    def files(self) -> Iterator[tuple[str, dict[str, Any]]]:
        files = self.value.get("files")
        for number, entry in enumerate(files if isinstance(files, list) else ()):
            if isinstance(entry, dict):
                yield f"files[{number}]", entry


def read_manifest(text: str) -> ManifestInput:
    try:
        return ManifestInput(mapping_in(text))
    except InvalidManifest as error:
        return ManifestInput(error=str(error))


@dataclass(frozen=True, slots=True)
class ReportInput:
    value: Any = None
    error: str = ""

    @property
    def budget(self) -> dict[str, Any]:
        budget = self.value.get("budget") if isinstance(self.value, dict) else None
        return budget if isinstance(budget, dict) else {}

    def listed(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        entries = self.value.get(name) if isinstance(self.value, dict) else None
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict):
                yield f"assembly_report.{name}[{number}]", entry


def read_report(text: str) -> ReportInput:
    try:
        value = parsed(text)
    except ValueError:
        try:
            value = mapping_in(text)
        except InvalidManifest as error:
            return ReportInput(error=str(error))
    return ReportInput(value.get("assembly_report") if isinstance(value, dict) else None)


def _invalid_yaml(subject: ManifestInput | ReportInput) -> Iterator[Finding]:
    if subject.error:
        line = _LINE.search(subject.error)
        yield Finding(_LINE.sub("", subject.error), line=int(line[1]) if line else None)


def _wrong_protocol(manifest: ManifestInput) -> Iterator[Finding]:
    if (protocol := manifest.value.get("protocol", PROTOCOL)) != PROTOCOL:
        yield Finding(describe(protocol), path="protocol")


def _bad_budget(manifest: ManifestInput) -> Iterator[Finding]:
    budget = manifest.value.get("budget", {})
    if not isinstance(budget, dict):
        yield Finding(describe(budget), path="budget")
        return
    for name in _BUDGET:
        if name in budget and not is_count(budget[name]):
            yield Finding(describe(budget[name]), path=at("budget", name))


def _wrong_effective(manifest: ManifestInput) -> Iterator[Finding]:
    most, reserved, effective = (manifest.part("budget").get(name) for name in _BUDGET)
    if is_count(most) and is_count(reserved) and is_count(effective) and most - reserved != effective:
        yield Finding(f"{effective}, but {most} - {reserved} is {most - reserved}", path="budget.effective")


def _bad_files(manifest: ManifestInput) -> Iterator[Finding]:
    if manifest.error:
        return
    files = manifest.value.get("files")
    if not isinstance(files, list):
        yield Finding(f"expected a list of files, got {describe(files)}", path="files")
        return
    for number, entry in enumerate(files):
        if not isinstance(entry, dict):
            yield Finding(f"expected a file, got {describe(entry)}", path=f"files[{number}]")


def _bad_paths(manifest: ManifestInput) -> Iterator[Finding]:
    for path, entry in manifest.files():
        if fault := path_fault(entry.get("path")):
            yield Finding(f"{describe(entry.get('path'))}: {fault}", path=at(path, "path"))


def _bad_priorities(manifest: ManifestInput) -> Iterator[Finding]:
    for path, entry in manifest.files():
        if not is_share(entry.get("priority")):
            yield Finding(describe(entry.get("priority")), path=at(path, "priority"))


def _bad_roles(manifest: ManifestInput) -> Iterator[Finding]:
    yield from _not_among(manifest, "role", ROLES)


def _bad_strategies(manifest: ManifestInput) -> Iterator[Finding]:
    yield from _not_among(manifest, "truncate_strategy", STRATEGIES)


def _not_among(manifest: ManifestInput, name: str, words: tuple[str, ...]) -> Iterator[Finding]:
    for path, entry in manifest.files():
        if name in entry and entry[name] not in words:
            yield Finding(describe(entry[name]), path=at(path, name))


def _bad_max_lines(manifest: ManifestInput) -> Iterator[Finding]:
    for path, entry in manifest.files():
        lines = entry.get("max_lines")
        if lines is not None and not is_count(lines):
            yield Finding(describe(lines), path=at(path, "max_lines"))


def _bad_metadata(manifest: ManifestInput) -> Iterator[Finding]:
    metadata = manifest.part("metadata")
    if "last_updated" in metadata and not is_time(metadata["last_updated"]):
        yield Finding(describe(metadata["last_updated"]), path="metadata.last_updated")
    if "assembled_by" in metadata and metadata["assembled_by"] not in _AUTHORS:
        yield Finding(describe(metadata["assembled_by"]), path="metadata.assembled_by")


def _bad_report(report: ReportInput) -> Iterator[Finding]:
    if report.error:
        return
    if not isinstance(report.value, dict):
        yield Finding(f"expected a mapping, got {describe(report.value)}", path="assembly_report")
        return
    for name in ("included", "excluded", "warnings"):
        entries, kind = report.value.get(name), str if name == "warnings" else dict
        if not isinstance(entries, list) or not all(isinstance(entry, kind) for entry in entries):
            yield Finding(describe(entries), path=f"assembly_report.{name}")


def _bad_report_budget(report: ReportInput) -> Iterator[Finding]:
    if isinstance(report.value, dict):
        for name in _REPORT_BUDGET:
            value = report.budget.get(name)
            if not isinstance(value, int) or isinstance(value, bool):
                yield Finding(describe(value), path=f"assembly_report.budget.{name}")


def _wrong_remaining(report: ReportInput) -> Iterator[Finding]:
    most, used, remaining = (report.budget.get(name) for name in _REPORT_BUDGET)
    if is_count(most) and is_count(used) and isinstance(remaining, int) and most - used != remaining:
        yield Finding(f"{remaining}, but {most} - {used} is {most - used}", path="assembly_report.budget.remaining")


def _over_budget(report: ReportInput) -> Iterator[Finding]:
    most, used, _ = (report.budget.get(name) for name in _REPORT_BUDGET)
    if is_count(most) and is_count(used) and used > most:
        yield Finding(f"{used} of {most} tokens", path="assembly_report.budget.used")


def _bad_included(report: ReportInput) -> Iterator[Finding]:
    for path, entry in report.listed("included"):
        if not _is_text(entry.get("path")):
            yield Finding(describe(entry.get("path")), path=at(path, "path"))
        if not is_count(entry.get("tokens")):
            yield Finding(describe(entry.get("tokens")), path=at(path, "tokens"))
        if not isinstance(entry.get("truncated"), bool):
            yield Finding(describe(entry.get("truncated")), path=at(path, "truncated"))


def _truncated_without_original(report: ReportInput) -> Iterator[Finding]:
    for path, entry in report.listed("included"):
        if entry.get("truncated") is True and not is_count(entry.get("original_tokens")):
            yield Finding(describe(entry.get("original_tokens")), path=at(path, "original_tokens"))


def _excluded_without_reason(report: ReportInput) -> Iterator[Finding]:
    for path, entry in report.listed("excluded"):
        for name in ("path", "reason"):
            if not _is_text(entry.get(name)):
                yield Finding(describe(entry.get(name)), path=at(path, name))


def _included_and_excluded(report: ReportInput) -> Iterator[Finding]:
    included = {entry["path"] for _, entry in report.listed("included") if _is_text(entry.get("path"))}
    for path, entry in report.listed("excluded"):
        if _is_text(entry.get("path")) and entry["path"] in included:
            yield Finding(f"{describe(entry['path'])} is also included", path=at(path, "path"))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


MANIFEST_CHECKS: tuple[Check[ManifestInput], ...] = (
    Check("CA-yaml", "MUST", "Schema ```yaml # working-set.yml", _invalid_yaml),
    Check("CA-protocol", "MUST", "protocol: CONTEXT-ASSEMBLY/0.1", _wrong_protocol),
    Check(
        "CA-budget",
        "MUST",
        "budget: max_tokens: 28000, reserved_for_response: 4000, effective: 24000",
        _bad_budget,
    ),
    Check("CA-effective", "MUST", "max_tokens: 28000, reserved_for_response: 4000, effective: 24000", _wrong_effective),
    Check("CA-files", "MUST", 'files: - path: ".agent/constitution.md" …', _bad_files),
    Check("CA-path", "MUST", "`path` | string | File path relative to session", _bad_paths),
    Check("CA-priority", "MUST", "`priority` | float | 0.0-1.0, higher = more important", _bad_priorities),
    Check("CA-role", "MUST", "`role` | enum | How to inject: system/developer/user/context", _bad_roles),
    Check("CA-truncate", "MUST", "`truncate_strategy` | enum | How to cut: never/start/middle/end", _bad_strategies),
    Check("CA-max-lines", "MUST", "`max_lines` | int? | Hard limit on lines", _bad_max_lines),
    Check(
        "CA-metadata",
        "SHOULD",
        'metadata: last_updated: "2025-12-30T12:30:00Z", assembled_by: "model" | "orchestrator" | "user"',
        _bad_metadata,
    ),
)

REPORT_CHECKS: tuple[Check[ReportInput], ...] = (
    Check(
        "CA-report-yaml", "MUST", "After assembly, the orchestrator reports: ```yaml assembly_report:", _invalid_yaml
    ),
    Check(
        "CA-report",
        "MUST",
        "After assembly, the orchestrator reports: budget, included, excluded, warnings",
        _bad_report,
    ),
    Check("CA-report-budget", "MUST", "budget: max: 28000, used: 23456, remaining: 4544", _bad_report_budget),
    Check("CA-report-remaining", "MUST", "max: 28000, used: 23456, remaining: 4544", _wrong_remaining),
    Check("CA-report-fits", "MUST", "fitting everything into the token budget", _over_budget),
    Check(
        "CA-report-included",
        "MUST",
        'included: - path: ".agent/constitution.md", tokens: 2100, truncated: false',
        _bad_included,
    ),
    Check(
        "CA-report-truncated",
        "SHOULD",
        "truncated: true, original_tokens: 15000",
        _truncated_without_original,
    ),
    Check(
        "CA-report-excluded",
        "MUST",
        'excluded: - path: "large_log.txt", reason: "Over budget, priority too low"',
        _excluded_without_reason,
    ),
    Check(
        "CA-report-once",
        "MUST",
        "included.append(file.path) … else: excluded.append(file.path)",
        _included_and_excluded,
    ),
)
