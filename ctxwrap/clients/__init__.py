"""The provider clients that `wrap` accepts: those of OpenAI, Anthropic and SDKs like theirs, litellm, boto3.

The package owns how a client's call becomes a turn and how its reply keeps the SDK's own types. `wrap` binds a client.
A call of an SDK's client passes through `sdk` (which takes ctxwrap's keywords, hides long arguments from a slow walk of
the SDK and overrides `post`) and `sdk_call` (which opens the turn, sends it, and finds the turn of a result). The SDK
then sends the request through the HTTP client of `http`, whose `responses` get another body: `rewritten_body` (the
reply without its trailer) or `observed_body` (the reply as it is, read along). Calls of `litellm`
(`litellm_call`) and of Bedrock's clients (`boto`) return objects: `function_call` sends them and changes their results.
`transport` does all of it in one HTTP transport, for other clients; `http_holders` puts it into some of them.
`preparation` loads in a thread what calls need. `preview` shows a request without sending it. Begin with `wrap.py`,
then `sdk_call.py`.
"""
