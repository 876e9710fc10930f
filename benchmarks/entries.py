"""Cost of rule-based summaries and context documents: per message, over long conversations, and for hostile input.

    python benchmarks/entries.py [--messages 10000]

growing: CPU milliseconds per message, merged in groups of six, for a tenth of the messages and for all of them.
hostile: CPU seconds to summarise, fit, trim and merge a megabyte; the slowest of the samples in the tests.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from ctxwrap.documents.document import EMPTY, grow, trimmed
from ctxwrap.documents.sentences import RawMessage
from ctxwrap.documents.summary import fit_summary, summarise_message
from tests.documents.talk import talk
from tests.documents.test_sentences import HOSTILE


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def grow_document(entries: list[RawMessage]) -> str:
    document = EMPTY
    for at in range(0, len(entries), 6):
        document = grow(document, entries[at : at + 6])
    return document


def growing(messages: int) -> None:
    entries = [known.entry for known in talk(messages)]
    for count in (messages // 10, messages):
        spent = seconds(partial(grow_document, entries[:count]))
        print(f"growing  {count:>7} messages  {1000 * spent / count:.2f} ms each")
    spent = seconds(lambda: [summarise_message(entry) for entry in entries])
    print(f"summaries {messages:>6} messages  {1000 * spent / messages:.2f} ms each")


def hostile() -> None:
    steps: dict[str, Callable[[str], object]] = {
        "summary_of": lambda text: summarise_message(RawMessage(1, "user", text)),
        "fitted": fit_summary,
        "trimmed": trimmed,
        "grown": lambda text: grow(EMPTY, [RawMessage(1, "user", text)]),
    }
    for name, step in steps.items():
        slowest = max((seconds(partial(step, text)), kind) for kind, text in HOSTILE.items())
        print(f"hostile  {name:<10} {slowest[0]:.2f} s ({slowest[1]})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    growing(parser.parse_args().messages)
    hostile()
