"""Inspect a call with `turn_of`: its round and mode, what was sent, and what the model changed in memory."""

import tempfile

import anthropic

import ctxwrap
from ctxwrap.testing.practice import Provider

with Provider() as provider, tempfile.TemporaryDirectory() as home:
    client = ctxwrap.wrap(
        anthropic.Anthropic(api_key="practice", base_url=provider.anthropic_url), session="ada", store=home
    )
    for text in ("My name is Ada and I like tea.", "What do you know about me?"):
        message = client.messages.create(model="practice", max_tokens=500, messages=[{"role": "user", "content": text}])
        turn = ctxwrap.turn_of(message)
        assert turn is not None
        print(f"round {turn.round}, {turn.mode}: {message.content[0].text}")
        for operation in turn.operations:
            print(f"  {operation.kind} {operation.id}: {operation.item['content'] if operation.item else ''}")
        for item in turn.pack:
            print(
                f"  {'sent' if item.included else 'left out'}: {item.kind}, about {item.tokens} tokens, {item.reason}"
            )
