"""A chat and an agent share one memory: the agent lists, searches and annotates what was said in a wrapped chat.

`python examples/memories.py` prints the summaries of the messages, the context document, a search result, and that the
next call of the chat includes what the agent wrote.
"""

import tempfile

from openai import OpenAI

import ctxwrap
from ctxwrap.testing.practice import Provider

SAID = (
    "My name is Ada and I like tea.",
    "We decided to bake rye bread on Saturday.",
    "I have to call Bob about the oven by Friday.",
    "Our bakery opens on 17 May 2027.",
)

store = tempfile.mkdtemp(prefix="ctxwrap-")

with Provider() as provider:
    plain = OpenAI(api_key="none", base_url=provider.openai_url)
    with ctxwrap.wrap(plain, store=store, session="bakery") as client:
        for said in SAID:
            client.chat.completions.create(model="practice", messages=[{"role": "user", "content": said}])

    memories = ctxwrap.Memories(store)
    for entry in memories.list_entries("bakery", limit=10).entries:
        print(f"{entry.role:9} {entry.summary}")

    context = memories.get_context("bakery")
    print(f"\nversion {context.version} of the context document, written by rules:\n{context.content}")

    found = memories.search_memories("bakery", "When does the bakery open?")
    print(f"found: {found.entries[0].passage}")

    memories.put_context(
        "bakery", f"{context.content}# Notes\n- Bob prefers e-mail.\n", expected_version=context.version
    )
    client = ctxwrap.wrap(OpenAI(api_key="none", base_url=provider.openai_url), store=store, session="bakery")
    reply = client.chat.completions.create(model="practice", messages=[{"role": "user", "content": "What is my name?"}])
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    print(f"\n{reply.choices[0].message.content} Pack: {[item.source for item in turn.pack if item.included]}")
