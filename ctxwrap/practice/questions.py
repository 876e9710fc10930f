"""What the practice model understands when it is asked something, as a table."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ctxwrap.practice.notebook import Notebook, task_text
from ctxwrap.practice.tells import DISLIKING, LIKING, LIVING, NAMING
from ctxwrap.practice.words import addressed, bare, capitalized, listed

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
