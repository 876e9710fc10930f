"""The page of `ctxwrap ui`: read-only views of sessions, served on loopback.

`views` makes the JSON of each view, `app` serves it beside the static files in `page/`.
"""
