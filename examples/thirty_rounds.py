"""Thirty rounds of a chat: a fact from the first round is known in the last, a hint decays, and a plot shows both.

The model gets no history, only its memory. `python examples/thirty_rounds.py DIRECTORY` writes the plot to DIRECTORY.
"""

import sys
import tempfile
from pathlib import Path

from openai import OpenAI

import ctxwrap
from ctxwrap.cli.memory import plotted
from ctxwrap.inspect import Curve, curves_of
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey

LAST = 30
FACT, HINT = "My name is Ada.", "For now, keep your answers short."
QUESTION = "What is my name?"
SMALL_TALK = ("Hello!", "Which round is it?", "Who are you?", "Thank you.")


def said_in(round: int) -> str:
    return {1: FACT, 2: HINT, LAST: QUESTION}.get(round) or SMALL_TALK[round % len(SMALL_TALK)]


def chat(client: OpenAI, text: str) -> str:
    reply = client.chat.completions.create(model="practice", messages=[{"role": "user", "content": text}])
    return reply.choices[0].message.content or ""


def tell(curve: Curve) -> None:
    print(f"\n{curve.content}")
    before = ""
    for round, place, decay in curve.points:
        if place != before or round % 10 == 0:
            print(f"  round {round:2}  {place:9}  decay {decay:.2f}  {'#' * int(decay * 40)}")
        before = place


directory = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp(prefix="ctxwrap-"))
store = ctxwrap.open_store("memory:")

with Provider() as provider:
    client = OpenAI(api_key="practice", base_url=provider.openai_url)
    client = ctxwrap.wrap(client, session="ada", store=store, history="caller")
    for round in range(1, LAST + 1):
        answer = chat(client, said_in(round))
        if said_in(round) not in SMALL_TALK:
            print(f"round {round:2}  {said_in(round)} -> {answer}")

curves = curves_of(store, SessionKey("default", "default", "ada"))
for curve in curves:
    tell(curve)

directory.mkdir(parents=True, exist_ok=True)
plot = directory / "thirty_rounds.svg"
plot.write_text(plotted(curves, "Thirty rounds: a fact and a hint"), encoding="utf-8")
print(f"\nPlot: {plot}")
