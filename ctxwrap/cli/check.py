"""The commands `check` and `conform`."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

import click

from ctxwrap.cli.output import AS_JSON, Column, facts, friendly_errors, json_text, one_line, progress_bar, show, table
from ctxwrap.conformance import CHECKS, KINDS, Broken, Conformance, InputKind, conform
from ctxwrap.conformance.model_check import Checkup, Estimate, SnapshotForm, check_model, estimate
from ctxwrap.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType


class CannotRun(click.ClickException):
    exit_code = 2


@click.command("check")
@click.option("--model", required=True, metavar="NAME", help="Any litellm model, or one of the server at --base-url.")
@click.option("--base-url", metavar="URL", help="Your own server; it gets no key unless --api-key-env names one.")
@click.option("--api-key-env", metavar="VAR", help="Variable that holds the API key. [default: litellm's own]")
@click.option("--snapshot", type=click.Choice(get_args(SnapshotForm)), default="delta", show_default=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@AS_JSON
def check_command(
    model: str, base_url: str | None, api_key_env: str | None, snapshot: SnapshotForm, yes: bool, as_json: bool
) -> None:
    """Check in twenty short turns whether ctxwrap works with a model.

    The turns are billed like any others. Nothing is stored on disk. Exit code 0: it works; 1: it does not; 2: the
    check could not run.
    """
    key = _key(api_key_env)
    if not as_json:
        click.echo(_announcement(model, estimate(model)))
        if not yes and sys.stdin.isatty() and not click.confirm("Continue?"):
            raise CannotRun("declined; nothing was sent")
    try:
        with friendly_errors(), progress_bar(f"checking {one_line(model)}") as progress:
            found = check_model(model, base_url=base_url, api_key=key, snapshot=snapshot, progress=progress)
    except Exception as error:  # providers raise errors of any class
        raise CannotRun(f"{one_line(model)} could not be checked: {one_line(str(error))}") from error
    if as_json:
        click.echo(json_text(found.as_json()))
    else:
        show(*_parts(found))
    sys.exit(0 if found.works else 1)


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not (key := os.environ.get(variable)):
        raise CannotRun(f"the variable {one_line(variable)} is empty")
    return key


def _announcement(model: str, expected: Estimate) -> str:
    price = "price unknown" if expected.dollars is None else _money(expected.dollars)
    return (
        f"{expected.turns} turns with {one_line(model)}: about {expected.tokens_in} tokens in and "
        f"{expected.tokens_out} out, {price}; reasoning tokens come on top."
    )


def _parts(found: Checkup) -> "Iterator[RenderableType]":
    turns = found.turns
    yield facts(
        [
            ("replies with a snapshot", _share(turns - found.missing, turns)),
            ("clean", found.clean),
            ("repaired or partial", found.repaired),
            ("unusable", f"{found.unusable}{_rescued(found)}"),
            ("format errors", ", ".join(f"{form} ({times})" for form, times in found.forms.items())),
            ("snapshots in answers", found.leaks or ""),
            ("empty answers", found.blank or ""),
            *((finding.what, "yes" if finding.holds else "NO") for finding in found.findings),
            ("tokens in", f"{found.tokens_in}{_cached(found)}"),
            ("tokens out", f"{found.tokens_out}, {found.snapshot_tokens} of them for snapshots"),
            ("seconds", f"{found.seconds:.1f}{_behind(found)}"),
            ("cost", "unknown" if found.dollars is None else _money(found.dollars)),
        ]
    )
    yield ""
    works = ("works", "yes" if found.works else "NO")
    yield facts([works, ("recommended settings", _setting(found)), ("reason", found.advice.why)])


def _rescued(found: Checkup) -> str:
    return f", {found.rescued} of them usable after a second request" if found.asked_again else ""


def _cached(found: Checkup) -> str:
    return "" if found.cached is None else f", {_share(found.cached, found.tokens_in)} of them cached by the provider"


def _behind(found: Checkup) -> str:
    behind = found.snapshot_seconds
    return "" if behind is None else f"; a streamed reply takes {behind:.1f} more after its visible text"


def _setting(found: Checkup) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in found.advice.settings.items())


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"


def _money(dollars: float) -> str:
    return f"{dollars:.4f} US dollars"


_LISTED = (Column("id"), Column("level"), Column("document"), Column("sentence", folds=True))


@click.command("conform")
@click.argument("path", required=False)
@click.option("--as", "kind", type=click.Choice(KINDS), help="What PATH is. [default: by its content]")
@click.option("--strict", is_flag=True, help="Also fail on SHOULD.")
@click.option("--list", "lists", is_flag=True, help="List all checks.")
@AS_JSON
def conform_command(path: str | None, kind: InputKind | None, strict: bool, lists: bool, as_json: bool) -> None:
    """Check PATH against the five specifications; - reads stdin.

    PATH is a session folder, records of Agent Context, a working-set manifest, an assembly report, a model's reply, a
    context document or a summary. Exit code 0: no MUST is broken; 1: one is; 2: PATH cannot be checked.
    """
    if lists:
        _list_checks(as_json=as_json)
        return
    if path is None:
        raise click.UsageError("name a PATH or use --list")
    stdin = sys.stdin.buffer if path == "-" else None
    try:
        found = conform(path, kind, stdin=stdin)
    except InvalidInput as error:
        raise CannotRun(one_line(f"{path}: {error}")) from None
    if as_json:
        click.echo(json_text({**found.as_json(), "conforms": found.holds(strict=strict)}))
    else:
        for line in _lines(found):
            click.echo(line)
    sys.exit(0 if found.holds(strict=strict) else 1)


def _list_checks(*, as_json: bool) -> None:
    rows = [(check.id, check.level, check.document, check.sentence) for check in CHECKS]
    if as_json:
        click.echo(json_text([dict(zip(("id", "level", "document", "sentence"), row, strict=True)) for row in rows]))
    else:
        show(table(_LISTED, rows))


def _lines(found: Conformance) -> Iterator[str]:
    for broken in found.broken:
        yield from _broken(broken)
    documents = []
    for document, counts in found.counts().items():
        numbers = [f"{counts[level]} {level}" for level in ("MUST", "SHOULD") if counts[level]]
        documents.append(f"{document}: {counts['checked']} checks, {' and '.join(numbers) or 'none'} broken")
    yield one_line(f"{found.name} ({found.kind}): {'; '.join(documents)}")


def _broken(broken: Broken) -> Iterator[str]:
    check = broken.check
    yield one_line(f"{check.id} {check.level}, {check.document}: “{check.sentence}”")
    for finding in broken.findings:
        yield f"  {one_line(': '.join(filter(None, (finding.where, finding.found))))}"
    if (more := broken.count - len(broken.findings)) > 0:
        yield f"  and {more} more"
