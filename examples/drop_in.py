"""A chat before and after ctxwrap: only the line that creates the client changes.

It runs offline against the practice provider. With a real provider, omit the `with` block and `base_url`.
"""

import tempfile

from openai import OpenAI

import ctxwrap
from ctxwrap.testing.practice import Provider


def chat(client: OpenAI, text: str) -> str:
    """Handle one request as a backend does: send only the newest message."""
    reply = client.chat.completions.create(model="practice", messages=[{"role": "user", "content": text}])
    return reply.choices[0].message.content or ""


with Provider() as provider, tempfile.TemporaryDirectory() as home:
    client = OpenAI(api_key="practice", base_url=provider.openai_url)
    chat(client, "My name is Ada.")
    print("before:", chat(client, "What is my name?"))

    client = ctxwrap.wrap(client, session="ada", store=home)
    chat(client, "My name is Ada.")
    print("after: ", chat(client, "What is my name?"))
