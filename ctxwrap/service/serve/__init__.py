"""`ctxwrap serve`: a proxy for OpenAI's and Anthropic's APIs that adds context, for tools that take only a URL.

The package owns everything between a client's HTTP request and the HTTP door (`clients/transport.py`), which turns a
model call into a turn. `config` has the upstreams and limits, `access` the tokens. `app` takes a request through
`routes` (which upstream, which headers), `names` (whose session) and `conversations` (the session of a client that
names none), sends it through the door and streams the reply back. `metrics` counts; `worker` runs it all.
"""
