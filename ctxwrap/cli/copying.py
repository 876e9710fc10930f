"""Sessions from one store to another."""

import click

from ctxwrap.cli.options import quietly
from ctxwrap.cli.progress import progress_bar
from ctxwrap.cli.text import json_text, one_line
from ctxwrap.copying import copy_sessions


def run_copy(*, source: str, target: str, session: str | None, tenant: str, agent: str, as_json: bool) -> None:
    with quietly(), progress_bar("copying") as progress:
        copied = copy_sessions(source, target, session=session, tenant=tenant, agent=agent, progress=progress)
        for each in copied:
            if as_json:
                click.echo(json_text({**each._asdict(), "key": each.key._asdict()}, indent=None))
            else:
                counts = f"{each.messages} messages, {each.events} events, {each.contents} contents, {each.new} new"
                click.echo(one_line(f"session {each.key.session!r} of tenant {each.key.tenant!r}: {counts}"))
