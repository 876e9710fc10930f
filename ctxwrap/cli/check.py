"""The commands `check` and `conform`."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ctxwrap.cli.output import Column, facts, friendly_errors, json_text, one_line, progress_bar, show, table
from ctxwrap.conformance import CHECKS, Broken, Conformance, InputKind, conform
from ctxwrap.conformance.model_check import Checkup, Estimate, SnapshotForm, check_model, estimate
from ctxwrap.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType


class NotTried(click.ClickException):
    exit_code = 2


def run_check(
    *, model: str, base_url: str | None, api_key_env: str | None, snapshot: SnapshotForm, yes: bool, as_json: bool
) -> None:
    key = _key(api_key_env)
    if not as_json:
        click.echo(_announced(model, estimate(model)))
        if not yes and sys.stdin.isatty() and not click.confirm("Go on?"):
            raise NotTried("nothing was asked")
    try:
        with friendly_errors(), progress_bar(f"talking with {one_line(model)}") as progress:
            found = check_model(model, base_url=base_url, api_key=key, snapshot=snapshot, progress=progress)
    except Exception as error:  # whatever keeps it from being tried is what is to be told
        raise NotTried(f"{one_line(model)} could not be tried: {one_line(str(error))}") from error
    if as_json:
        click.echo(json_text(found.as_json()))
    else:
        show(*_parts(found))
    sys.exit(0 if found.works else 1)


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not (key := os.environ.get(variable)):
        raise NotTried(f"the variable {one_line(variable)} is empty")
    return key


def _announced(model: str, expected: Estimate) -> str:
    price = "at a price that is unknown" if expected.dollars is None else f"for {_money(expected.dollars)}"
    return (
        f"{expected.turns} turns with {one_line(model)}: about {expected.tokens_in} tokens in and "
        f"{expected.tokens_out} out, {price}, and more if it thinks before it answers."
    )


def _parts(found: Checkup) -> "Iterator[RenderableType]":
    turns = found.turns
    yield facts(
        [
            ("replies with a state", _share(turns - found.missing, turns)),
            ("clean", found.clean),
            ("mended or in part", found.repaired),
            ("unusable", f"{found.unusable}{_rescued(found)}"),
            ("forms broken", ", ".join(f"{form} ({times})" for form, times in found.forms.items())),
            ("states in answers", found.leaks or ""),
            ("empty answers", found.blank or ""),
            *((finding.what, "yes" if finding.holds else "NO") for finding in found.findings),
            ("tokens in", f"{found.tokens_in}{_cached(found)}"),
            ("tokens out", f"{found.tokens_out}, of these {found.snapshot_tokens} for states"),
            ("seconds", f"{found.seconds:.1f}{_behind(found)}"),
            ("cost", "unknown" if found.dollars is None else _money(found.dollars)),
        ]
    )
    yield ""
    yield facts([("works", "yes" if found.works else "NO"), ("set", _setting(found)), ("since", found.advice.why)])


def _rescued(found: Checkup) -> str:
    return f", of these {found.rescued} usable when asked again" if found.asked_again else ""


def _cached(found: Checkup) -> str:
    return "" if found.cached is None else f", {_share(found.cached, found.tokens_in)} of them cached by the provider"


def _behind(found: Checkup) -> str:
    behind = found.snapshot_seconds
    return "" if behind is None else f", of each streamed reply {behind:.1f} behind its visible text"


def _setting(found: Checkup) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in found.advice.settings.items())


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"


def _money(dollars: float) -> str:
    return f"{dollars:.4f} US dollars"


_LISTED = (Column("id"), Column("level"), Column("document"), Column("sentence", folds=True))


class Unusable(click.ClickException):
    exit_code = 2


def run_conform(path: str, *, kind: InputKind | None, strict: bool, as_json: bool) -> None:
    stdin = sys.stdin.buffer if path == "-" else None
    try:
        found = conform(path, kind, stdin=stdin)
    except InvalidInput as error:
        raise Unusable(one_line(f"{path}: {error}")) from None
    if as_json:
        click.echo(json_text({**found.as_json(), "conforms": found.holds(strict=strict)}))
    else:
        for line in _lines(found):
            click.echo(line)
    sys.exit(0 if found.holds(strict=strict) else 1)


def list_checks(*, as_json: bool) -> None:
    rows = [(check.id, check.level, check.document, check.sentence) for check in CHECKS]
    if as_json:
        click.echo(json_text([dict(zip(("id", "level", "document", "sentence"), row, strict=True)) for row in rows]))
    else:
        show(table(_LISTED, rows))


def _lines(found: Conformance) -> Iterator[str]:
    for broken in found.broken:
        yield from _broken(broken)
    told = []
    for document, counts in found.counts().items():
        numbers = [f"{counts[level]} {level}" for level in ("MUST", "SHOULD") if counts[level]]
        told.append(f"{document}: {counts['checked']} checks, {' and '.join(numbers) or 'none'} broken")
    yield one_line(f"{found.name} ({found.kind}): {'; '.join(told)}")


def _broken(broken: Broken) -> Iterator[str]:
    check = broken.check
    yield one_line(f"{check.id} {check.level}, {check.document}: “{check.sentence}”")
    for finding in broken.findings:
        yield f"  {one_line(': '.join(filter(None, (finding.where, finding.found))))}"
    if (more := broken.count - len(broken.findings)) > 0:
        yield f"  and {more} more"
