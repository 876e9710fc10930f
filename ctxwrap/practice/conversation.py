"""How the practice model takes in what is said and finds its reply, sentence by sentence."""

import re

from ctxwrap.practice.answer import JSON
from ctxwrap.practice.notebook import Notebook, task_text
from ctxwrap.practice.questions import LITTLE, asked, is_unknown
from ctxwrap.practice.tells import Fact, told
from ctxwrap.practice.words import addressed, bare, keywords, listed, sentences

_FINISHED = re.compile(
    r"(?:i(?:'ve| have)? (?:just |already )?(?:finished|completed)|i have done|i've done"
    r"|(?:i'm |i am )?(?:done|finished)(?: with)?:?)(?: (.+))?",
    re.I,
)
_DID = re.compile(r"i (?:just |already )?did (.+)|(.+) (?:is|are) (?:done|finished)", re.I)
_FORGET = re.compile(r"forget (?:about |that )?(.+)", re.I)
_THE_LAST = re.compile(r"it|that|this|(?:the|my) (?:last )?task", re.I)
_ALL = re.compile(r"everything(?: .*)?|it all|all(?: of (?:it|them))?|(?:all )?my tasks", re.I)


def converse(spoken: list[str], notebook: Notebook) -> str:
    """The reply to the newest of the messages `spoken`; what it tells goes into `notebook`.

    The messages before it were heard in their own rounds. They serve the reply, and go into `notebook` only
    when it is empty: so begins a conversation of which nothing was remembered so far.
    """
    earlier, newest = spoken[:-1], spoken[-1:]
    heard = _heard(earlier)
    if not notebook.notes:
        for fact in heard:
            if fact.tier != "ephemeral":
                notebook.put(fact)
    known = Notebook(notebook.state())
    for fact in heard:
        if not known.knows(fact):
            known.put(fact)
    replies = [_reply(sentence, notebook, known) for text in newest for sentence in sentences(text)]
    notebook.settle(lambda question: not is_unknown(asked(question, known)))
    return " ".join(dict.fromkeys(reply for reply in replies if reply)) or LITTLE


def _heard(messages: list[str]) -> list[Fact]:
    """What `messages` told and did not take back."""
    notebook, facts = Notebook(), list[Fact]()
    for sentence in (sentence for text in messages for sentence in sentences(text)):
        fact = _fact(sentence)
        if fact is not None:
            notebook.put(fact)
            facts.append(fact)
        else:
            _drop(sentence, notebook)
    contents = set(notebook.contents)
    return [fact for fact in facts if fact.content in contents]


def _fact(sentence: str) -> Fact | None:
    """What `sentence` tells, unless it asks."""
    return told(sentence) if asked(sentence, Notebook()) is None else None


def _reply(sentence: str, notebook: Notebook, known: Notebook) -> str | None:
    dropped = _drop(sentence, known)
    if dropped is not None:
        _drop(sentence, notebook)
        return dropped
    answer = asked(sentence, known)
    if is_unknown(answer):
        notebook.miss(sentence)
    fact = told(sentence) if answer is None else None
    if fact is None:
        return answer
    known.put(fact)
    notebook.put(fact)
    return fact.reply


def _drop(sentence: str, notebook: Notebook) -> str | None:
    """The reply to what settles a task or takes something back; None when `sentence` does neither."""
    plain = bare(sentence)
    if found := _FORGET.fullmatch(plain):
        return _forget(found[1], notebook)
    if found := _FINISHED.fullmatch(plain):
        return _finish(found[1] or "it", notebook) or "I have no such task on your list."
    if found := _DID.fullmatch(plain):
        return _finish(found[1] or found[2], notebook)
    return None


def _forget(what: str, notebook: Notebook) -> str:
    notes = notebook.notes if _ALL.fullmatch(what) else notebook.about(what)
    contents = [addressed(note["content"]) for note in notes]
    notebook.drop(notes)
    return f"Forgotten: {listed(contents)}." if contents else "I know nothing about that."


def _finish(what: str, notebook: Notebook) -> str | None:
    tasks = _meant_tasks(what, notebook.tasks)
    notebook.drop(tasks)
    done = listed([task_text(task) for task in tasks])
    return f"Well done, that is off your list: {done}." if done else None


def _meant_tasks(what: str, tasks: list[JSON]) -> list[JSON]:
    if _ALL.fullmatch(what):
        return tasks
    if _THE_LAST.fullmatch(what):
        return tasks[-1:]
    shared = [len(keywords(what) & keywords(task_text(task))) for task in tasks]
    best = max(shared, default=0)
    return [tasks[shared.index(best)]] if best else []
