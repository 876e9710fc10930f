"""How the practice model understands a message and chooses its reply."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctxwrap.testing.practice.answer import JSON
from ctxwrap.testing.practice.memory import (
    DISLIKING,
    LIKING,
    LIVING,
    NAMING,
    Fact,
    PracticeMemory,
    capitalized,
    join_words,
    keywords,
    parse_statement,
    sentences,
    strip_punctuation,
    task_text,
    to_second_person,
)
from ctxwrap.testing.practice.requests import dict_at

_DEEPEST = 8


def fill_schema(schema: JSON, text: str, contents: list[str]) -> str:
    """Return a JSON object for `schema`, from the facts in `contents` and the answer `text`."""
    if schema.get("type") != "object" or not dict_at(schema, "properties"):
        return json.dumps({"answer": text}, ensure_ascii=False)
    return json.dumps(_SchemaFiller(schema, text, contents).value(schema, "", 0), ensure_ascii=False)


class _SchemaFiller:
    """Fills a schema: strings with the fact of the same name, else with the answer."""

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
        """Resolve a reference, or take the first alternative."""
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return dict_at(dict_at(self._root, "$defs"), reference.rpartition("/")[2])
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self._plain(schema[key][0])
        return schema

    def _known(self, name: str) -> str | None:
        wanted = re.compile(rf"The user's {re.escape(name.replace('_', ' '))} (?:is|are) (.+)", re.I)
        found = (wanted.fullmatch(strip_punctuation(content)) for content in self._contents)
        return next((match[1] for match in found if match), None)


def _kind(schema: JSON) -> str:
    kind = schema.get("type", "string")
    return str(kind[0]) if isinstance(kind, list) else str(kind)


SELF = "I am ctxwrap's practice model: a few rules, no intelligence."
HELP = (
    "I am only a practice model and understand little: "
    'try "My name is Ada and I like tea", then "What do you know about me?"'
)

_UNKNOWN = "You have not told me that."
_WHAT_IS = r"(?:what(?:'s| is| are| was)|do you (?:know|remember)|tell me)"
_ASKS = re.compile(r"(?:what|where|who|when|which|how|why|do|does|did|am|is|are|can|tell me)\b", re.I)
_ABOUT_USER = re.compile(r"\b(?:i|me|my|mine)\b", re.I)


@dataclass(frozen=True, slots=True)
class _Question:
    """A question that is answered with the contents that match `known`."""

    pattern: str
    known: str
    otherwise: str

    def answer(self, sentence: str, memory: PracticeMemory) -> str | None:
        if re.fullmatch(self.pattern, sentence, re.I) is None:
            return None
        matching = [content for content in memory.contents if re.fullmatch(self.known, content, re.I)]
        return _statement(matching) or self.otherwise


@dataclass(frozen=True, slots=True)
class _Remark:
    """A question or remark that is answered by a rule."""

    pattern: str
    rule: Callable[[PracticeMemory], str]

    def answer(self, sentence: str, memory: PracticeMemory) -> str | None:
        return self.rule(memory) if re.fullmatch(self.pattern, sentence, re.I) else None


def _tasks(memory: PracticeMemory) -> str:
    tasks = [task_text(item) for item in memory.tasks]
    return f"You still have to: {'; '.join(tasks)}." if tasks else "You have nothing left to do."


def _everything(memory: PracticeMemory) -> str:
    return _statement(memory.contents) or "I know nothing about you yet."


def _round(memory: PracticeMemory) -> str:
    return f"This is round {memory.round}." if memory.round else "Nobody told me the round."


def _now(memory: PracticeMemory) -> str:
    now = memory.runtime.get("datetime")
    return f"It is {now}." if now else "I have no clock, and nobody told me the time."


_QUESTIONS: tuple[_Question | _Remark, ...] = (
    _Remark(r"who are you|what are you|(?:what(?:'s| is) )your name|are you .+", lambda _: SELF),
    _Remark(r"(?:what|which) round (?:is it|is this|are we in)", _round),
    _Remark(r"what(?:'s| is)? (?:the )?(?:time|date|day)(?: is it)?(?: now| today)?", _now),
    _Remark(r"what can you do|help|how do you work", lambda _: HELP),
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


def answer_question(sentence: str, memory: PracticeMemory) -> str | None:
    """Answer `sentence` from memory; None if it is not a question."""
    plain = strip_punctuation(sentence)
    answers = (question.answer(plain, memory) for question in _QUESTIONS)
    known = next((answer for answer in answers if answer is not None), None)
    if known is not None or not (_ASKS.match(plain) or sentence.rstrip().endswith("?")):
        return known
    fitting = _statement([item["content"] for item in memory.about(plain)])
    unknown = _UNKNOWN if _ABOUT_USER.search(plain) else None
    return fitting or unknown


def is_unknown(answer: str | None) -> bool:
    """Whether an answer says that the fact is unknown."""
    otherwise = (each.otherwise for each in _QUESTIONS if isinstance(each, _Question))
    return answer in (_UNKNOWN, *otherwise)


def _statement(contents: list[str]) -> str:
    """Return contents as one sentence to the user."""
    return f"{capitalized(join_words([to_second_person(content) for content in contents]))}." if contents else ""


_FINISHED = re.compile(
    r"(?:i(?:'ve| have)? (?:just |already )?(?:finished|completed)|i have done|i've done"
    r"|(?:i'm |i am )?(?:done|finished)(?: with)?:?)(?: (.+))?",
    re.I,
)
_DID = re.compile(r"i (?:just |already )?did (.+)|(.+) (?:is|are) (?:done|finished)", re.I)
_FORGET = re.compile(r"forget (?:about |that )?(.+)", re.I)
_THE_LAST = re.compile(r"it|that|this|(?:the|my) (?:last )?task", re.I)
_ALL = re.compile(r"everything(?: .*)?|it all|all(?: of (?:it|them))?|(?:all )?my tasks", re.I)


def converse(messages: list[str], memory: PracticeMemory) -> str:
    """Reply to the newest of the user's messages, and add its facts to `memory`.

    Earlier messages were handled in their own rounds. They inform the reply, and enter `memory` only if it is empty,
    at the start of a conversation.
    """
    earlier, newest = messages[:-1], messages[-1:]
    earlier_facts = _facts_in(earlier)
    if not memory.items:
        for fact in earlier_facts:
            if fact.tier != "ephemeral":
                memory.add_fact(fact)
    known = PracticeMemory(memory.state())
    for fact in earlier_facts:
        if not known.has_subject_of(fact):
            known.add_fact(fact)
    replies = [_reply(sentence, memory, known) for text in newest for sentence in sentences(text)]
    memory.drop_answered(lambda question: not is_unknown(answer_question(question, known)))
    return " ".join(dict.fromkeys(reply for reply in replies if reply)) or HELP


def _facts_in(messages: list[str]) -> list[Fact]:
    """Return the facts that `messages` state and do not retract."""
    memory, facts = PracticeMemory(), list[Fact]()
    for sentence in (sentence for text in messages for sentence in sentences(text)):
        fact = _fact(sentence)
        if fact is not None:
            memory.add_fact(fact)
            facts.append(fact)
        else:
            _drop(sentence, memory)
    contents = set(memory.contents)
    return [fact for fact in facts if fact.content in contents]


def _fact(sentence: str) -> Fact | None:
    """Return the fact in `sentence`, unless it is a question."""
    return parse_statement(sentence) if answer_question(sentence, PracticeMemory()) is None else None


def _reply(sentence: str, memory: PracticeMemory, known: PracticeMemory) -> str | None:
    dropped = _drop(sentence, known)
    if dropped is not None:
        _drop(sentence, memory)
        return dropped
    answer = answer_question(sentence, known)
    if is_unknown(answer):
        memory.add_question(sentence)
    fact = parse_statement(sentence) if answer is None else None
    if fact is None:
        return answer
    known.add_fact(fact)
    memory.add_fact(fact)
    return fact.reply


def _drop(sentence: str, memory: PracticeMemory) -> str | None:
    """Reply to a finished task or a retraction; None if `sentence` is neither."""
    plain = strip_punctuation(sentence)
    if found := _FORGET.fullmatch(plain):
        return _forget(found[1], memory)
    if found := _FINISHED.fullmatch(plain):
        return _finish(found[1] or "it", memory) or "I have no such task on your list."
    if found := _DID.fullmatch(plain):
        return _finish(found[1] or found[2], memory)
    return None


def _forget(what: str, memory: PracticeMemory) -> str:
    items = memory.items if _ALL.fullmatch(what) else memory.about(what)
    contents = [to_second_person(item["content"]) for item in items]
    memory.drop(items)
    return f"Forgotten: {join_words(contents)}." if contents else "I know nothing about that."


def _finish(what: str, memory: PracticeMemory) -> str | None:
    tasks = _matching_tasks(what, memory.tasks)
    memory.drop(tasks)
    done = join_words([task_text(task) for task in tasks])
    return f"Well done, that is off your list: {done}." if done else None


def _matching_tasks(what: str, tasks: list[JSON]) -> list[JSON]:
    if _ALL.fullmatch(what):
        return tasks
    if _THE_LAST.fullmatch(what):
        return tasks[-1:]
    shared = [len(keywords(what) & keywords(task_text(task))) for task in tasks]
    best = max(shared, default=0)
    return [tasks[shared.index(best)]] if best else []
