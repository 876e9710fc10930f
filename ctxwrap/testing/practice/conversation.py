"""How the practice model understands a message and finds its reply."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctxwrap.testing.practice.answer import JSON
from ctxwrap.testing.practice.notebook import (
    DISLIKING,
    LIKING,
    LIVING,
    NAMING,
    Fact,
    Notebook,
    addressed,
    bare,
    capitalized,
    keywords,
    listed,
    parse_statement,
    sentences,
    task_text,
)
from ctxwrap.testing.practice.requests import dict_at

_DEEPEST = 8


def structured(schema: JSON, text: str, contents: list[str]) -> str:
    """A small object for `schema`, from the facts in `contents` and from `text`, the answer in words."""
    if schema.get("type") != "object" or not dict_at(schema, "properties"):
        return json.dumps({"answer": text}, ensure_ascii=False)
    return json.dumps(_Filling(schema, text, contents).value(schema, "", 0), ensure_ascii=False)


class _Filling:
    """Fills a schema: a text with the fact of its name, else with the answer in words."""

    def __init__(self, root: JSON, text: str, contents: list[str]) -> None:
        self._root = root
        self._text = text
        self._contents = contents

    def value(self, schema: JSON, name: str, depth: int) -> Any:
        schema = self._plain(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        match _kind(schema):
            case "object" if depth < _DEEPEST:
                properties = dict_at(schema, "properties")
                return {key: self.value(inner, key, depth + 1) for key, inner in properties.items()}
            case "array" if depth < _DEEPEST:
                items = dict_at(schema, "items")
                return [self.value(items, name, depth + 1) for _ in range(schema.get("minItems", 0))]
            case "string":
                return self._known(name) or self._text
            case kind:
                return {"boolean": False, "null": None}.get(kind, schema.get("minimum", 0))

    def _plain(self, schema: JSON) -> JSON:
        """`schema` with its reference followed, or with the first of its alternatives."""
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return dict_at(dict_at(self._root, "$defs"), reference.rpartition("/")[2])
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self._plain(schema[key][0])
        return schema

    def _known(self, name: str) -> str | None:
        wanted = re.compile(rf"The user's {re.escape(name.replace('_', ' '))} (?:is|are) (.+)", re.I)
        found = (wanted.fullmatch(bare(content)) for content in self._contents)
        return next((match[1] for match in found if match), None)


def _kind(schema: JSON) -> str:
    kind = schema.get("type", "string")
    return str(kind[0]) if isinstance(kind, list) else str(kind)


SELF = "I am ctxwrap's practice model: a few rules, no intelligence."
LITTLE = (
    "I am only a practice model and understand little: "
    'try "My name is Ada and I like tea", then "What do you know about me?"'
)

_UNKNOWN = "You have not told me that."
_WHAT_IS = r"(?:what(?:'s| is| are| was)|do you (?:know|remember)|tell me)"
_ASKS = re.compile(r"(?:what|where|who|when|which|how|why|do|does|did|am|is|are|can|tell me)\b", re.I)
_ABOUT_USER = re.compile(r"\b(?:i|me|my|mine)\b", re.I)


@dataclass(frozen=True, slots=True)
class _Question:
    """A question whose answer is in the contents that match `known`."""

    pattern: str
    known: str
    otherwise: str

    def answer(self, sentence: str, notebook: Notebook) -> str | None:
        if re.fullmatch(self.pattern, sentence, re.I) is None:
            return None
        matching = [content for content in notebook.contents if re.fullmatch(self.known, content, re.I)]
        return _statement(matching) or self.otherwise


@dataclass(frozen=True, slots=True)
class _Remark:
    """A question or remark that is answered with a rule of its own."""

    pattern: str
    rule: Callable[[Notebook], str]

    def answer(self, sentence: str, notebook: Notebook) -> str | None:
        return self.rule(notebook) if re.fullmatch(self.pattern, sentence, re.I) else None


def _tasks(notebook: Notebook) -> str:
    tasks = [task_text(note) for note in notebook.tasks]
    return f"You still have to: {'; '.join(tasks)}." if tasks else "You have nothing left to do."


def _everything(notebook: Notebook) -> str:
    return _statement(notebook.contents) or "I know nothing about you yet."


def _round(notebook: Notebook) -> str:
    return f"This is round {notebook.round}." if notebook.round else "Nobody told me the round."


def _now(notebook: Notebook) -> str:
    now = notebook.runtime.get("datetime")
    return f"It is {now}." if now else "I have no clock, and nobody told me the time."


_QUESTIONS: tuple[_Question | _Remark, ...] = (
    _Remark(r"who are you|what are you|(?:what(?:'s| is) )your name|are you .+", lambda _: SELF),
    _Remark(r"(?:what|which) round (?:is it|is this|are we in)", _round),
    _Remark(r"what(?:'s| is)? (?:the )?(?:time|date|day)(?: is it)?(?: now| today)?", _now),
    _Remark(r"what can you do|help|how do you work", lambda _: LITTLE),
    _Remark(r"(?:hi|hello|hey)(?: there)?|good (?:morning|day|evening)", lambda _: "Hello!"),
    _Remark(r"(?:many )?thanks|thank you(?: .+)?", lambda _: "You are welcome."),
    _Remark(
        r"what do you (?:still )?(?:know|remember)(?: about me)?|tell me (?:all|everything|what) you know.*",
        _everything,
    ),
    _Remark(
        r"what (?:do i (?:still )?(?:have|need) to do.*|are my (?:open )?(?:tasks|to-?dos)"
        r"|is (?:left to do|on my (?:to-?do )?list))",
        _tasks,
    ),
    _Question(
        rf"(?:{_WHAT_IS} my name|who am i|what am i called)",
        known=NAMING,
        otherwise="You have not told me your name.",
    ),
    _Question(
        r"(?:do you (?:know|remember) )?where (?:do )?i live",
        known=LIVING,
        otherwise="You have not told me where you live.",
    ),
    _Question(
        r"where do i work|what do i do for (?:a living|work)|what is my job",
        known=r"The user works .+|The user's job is .+",
        otherwise="You have not told me where you work.",
    ),
    _Question(
        r"what do i (?:like|love|enjoy|prefer|adore)",
        known=rf"The user {LIKING} .+",
        otherwise="You have not told me what you like.",
    ),
    _Question(
        r"what (?:do i (?:hate|dislike|not like)|don't i like)",
        known=rf"The user {DISLIKING} .+",
        otherwise="You have not told me what you dislike.",
    ),
)


def asked(sentence: str, notebook: Notebook) -> str | None:
    """The answer to `sentence` from what is in `notebook`, or None when it asks nothing."""
    plain = bare(sentence)
    answers = (question.answer(plain, notebook) for question in _QUESTIONS)
    known = next((answer for answer in answers if answer is not None), None)
    if known is not None or not (_ASKS.match(plain) or sentence.rstrip().endswith("?")):
        return known
    fitting = _statement([note["content"] for note in notebook.about(plain)])
    unknown = _UNKNOWN if _ABOUT_USER.search(plain) else None
    return fitting or unknown


def is_unknown(answer: str | None) -> bool:
    """Whether an answer says that the user has not told what was asked for."""
    otherwise = (each.otherwise for each in _QUESTIONS if isinstance(each, _Question))
    return answer in (_UNKNOWN, *otherwise)


def _statement(contents: list[str]) -> str:
    """What is known, in one sentence to the user."""
    return f"{capitalized(listed([addressed(content) for content in contents]))}." if contents else ""


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
    return parse_statement(sentence) if asked(sentence, Notebook()) is None else None


def _reply(sentence: str, notebook: Notebook, known: Notebook) -> str | None:
    dropped = _drop(sentence, known)
    if dropped is not None:
        _drop(sentence, notebook)
        return dropped
    answer = asked(sentence, known)
    if is_unknown(answer):
        notebook.miss(sentence)
    fact = parse_statement(sentence) if answer is None else None
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
