"""The provider clients that `wrap` accepts: those of OpenAI, Anthropic and SDKs like theirs, and litellm.

The package owns how a client's call becomes a turn and how its reply keeps the SDK's own types. `wrap` binds a client.
A call of an SDK's client passes through `sdk` (which takes ctxwrap's keywords, hides long arguments from a slow walk of
the SDK and overrides `post`) and `sdk_call` (which opens the turn, sends it, and finds the turn of a result). The SDK
then sends the request through the HTTP client of `http`, whose `responses` get another body:
`rewritten_body` (the reply without its trailer) or `observed_body` (the reply as it is, read along). A litellm call
passes through `litellm` alone. `transport` does all of it in one HTTP transport, for clients that `wrap` does not know.
`preview` shows a request without sending it. Begin with `wrap.py`, then `sdk_call.py`.
"""
