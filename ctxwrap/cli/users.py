"""The command `users`."""

import click

from ctxwrap.cli.output import AS_JSON, STORE, TENANT, Column, as_name, as_time, command, json_text, show, table
from ctxwrap.inspect.owner_info import owner_infos
from ctxwrap.stores import open_store
from ctxwrap.stores.names import check_id

_COLUMNS = (
    Column("sessions", right=True),
    Column("items", right=True),
    Column("updated (UTC)", needs=40),
)


@command("users")
@TENANT
@click.option("--teams", is_flag=True, help="List teams instead of users.")
@STORE
@AS_JSON
def users_command(tenant: str, teams: bool, store: str | None, as_json: bool) -> None:
    """List the users of a tenant, or its teams."""
    kind = "team" if teams else "user"
    infos = owner_infos(open_store(store), check_id("tenant", tenant), kind)
    if as_json:
        click.echo(json_text([info._asdict() for info in infos]))
    elif infos:
        rows = [(as_name(info.name), info.sessions, info.items, as_time(info.updated_at)) for info in infos]
        show(table((Column(kind, folds=True), *_COLUMNS), rows))
    else:
        click.echo(f"no {kind}s of tenant {as_name(tenant)}")
