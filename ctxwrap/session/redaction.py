"""Redaction of the log: what remains of records when memory items, texts or messages are erased."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ctxwrap.session.blobs import blobs_in, reference_in, texts_in, with_named_texts
from ctxwrap.session.branch import digest
from ctxwrap.session.missing import CLASSES, DETECTED, MODEL, REQUESTED, changed_by
from ctxwrap.stores.log_format import message_in, message_range, turn_in
from ctxwrap.types import Message, Record

FORGOTTEN = "[forgotten]"
PURGED = "[purged]"

_STRUCTURE = frozenset(
    {"attempt", "budget", "ctx", "index", "message", "mode", "model", "moves", "pack", "prefix", "response_id"}
    | {"role", "round", "run", "sha256"}
    | {"runtime", "status", "stream", "type", "usage", "wire", "id", "kind", "tier", "origin", "source"}
    | {"agent", "child", "parent", "session"}
    | {"session_id", "turn_id", "task_id", "attempt_id", "subject"}
)
"""Fields without free text."""

_OF_A_QUESTION = ("question", "needed_for", "blocked_actions", "reason", "remedy", "resolution")
"""The free-text fields of missing-context events."""

CHILD_EVENTS = ("agent.child.start", "agent.child.result", "agent.child.cancel")

_OURS = "protocol"
"""The name of ctxwrap's own text in a pack."""

LONG = 12
"""Texts of at least this length are also searched inside words and in other memory items."""


class EventRedaction(NamedTuple):
    """What is erased from events."""

    ids: frozenset[str] = frozenset()
    """Ids of memory items, whatever their text."""
    versions: frozenset[tuple[str, str]] = frozenset()
    """Ids of memory items with one text of each."""
    texts: tuple[str, ...] = ()
    """Texts that must not appear in anything a model wrote."""
    tasks: frozenset[str] = frozenset()
    trailers: frozenset[str] = frozenset()
    """Turns whose trailers and re-asked trailers are erased."""
    choices: frozenset[str] = frozenset()
    """Turns whose other choices are erased."""
    blobs: frozenset[str] = frozenset()
    """Blobs that are erased."""
    questions: frozenset[str] = frozenset()
    """Ids of questions by models, whatever their text."""
    summaries: int = 0
    """Summaries that cover this message or later ones are erased; 0 for none."""

    entries: frozenset[int] = frozenset()
    """Messages whose stored metadata is erased."""
    tells: Callable[[str], bool] | None = None
    """Whether a line paraphrases what is erased."""
    children: frozenset[str] = frozenset()
    """Child sessions whose inputs and results are erased."""

    def event(self, event: Record) -> Record:
        if not any(self):
            return event
        if event.get("type") == "document":
            return {**event, "content": self._document(event)} if "content" in event else event
        if event.get("type") == "entry":
            return self._entry(event)
        if event.get("type") == "summary" and self._may_tell(message_range(str(event.get("source")))[1]):
            return {**event, "text": FORGOTTEN}
        if event.get("type") in CHILD_EVENTS:
            return self._child(event)
        shown = self.versions or self.texts or self.summaries or self.children or self.tells
        if event.get("type") in ("start", "repack") and shown:
            event = self._without_texts(event)
        turn = turn_in(event)
        if event.get("type") == "choice" and turn in self.choices:
            return emptied(event)
        if event.get("type") in CLASSES:
            return self._without_question(event, turn)
        left = {name: self._field(name, value, turn) for name, value in event.items()}
        return self._without_blobs(left) if self.blobs else left

    def _without_question(self, event: Record, turn: str) -> Record:
        """A missing-context event; of an erased question not even the id remains."""
        data = event.get("data")
        if not isinstance(data, dict):
            return event
        is_asked = turn in self.choices and (data.get("source") == MODEL or event["type"] == REQUESTED)
        if not is_asked and event.get("subject") not in self.questions:
            words = {name: _in_strings(data[name], self._said) for name in _OF_A_QUESTION if name in data}
            return {**event, "data": {**data, **words}}
        left = {name: value for name, value in data.items() if name not in _OF_A_QUESTION}
        return {name: value for name, value in event.items() if name != "subject"} | {"data": left}

    def _document(self, event: Record) -> str:
        """A version of the document: empty if it derives from erased text, else without lines that paraphrase it."""
        content = str(event.get("content"))
        if not self._may_tell(int(event.get("covers") or 0)):
            return self._said(content)
        return FORGOTTEN if event.get("by") == "extract" else self.lines_left(content)

    def lines_left(self, text: str) -> str:
        left = [line for line in text.split("\n") if self._said(line) == line and not (self.tells and self.tells(line))]
        return "\n".join(left) if any(map(str.strip, left)) else FORGOTTEN

    def _entry(self, event: Record) -> Record:
        """An entry event; an erased summary is replaced by one made by rules."""
        if event.get("message") in self.entries:
            return {**event, "summary": "", "tags": {}}
        summary = str(event.get("summary") or "")
        is_erased = self._said(summary) != summary or (self.tells is not None and self.tells(summary))
        return {**event, "summary": "" if is_erased else summary, "tags": _in_strings(event.get("tags"), self._said)}

    def _child(self, event: Record) -> Record:
        """A child event: its texts, references and files."""
        if event.get("child") in self.children:
            words = {name: FORGOTTEN for name in ("handoff", "result") if event.get(name)}
            return self._with_artifacts({**event, **words, **({"refs": []} if "refs" in event else {})}, [])
        words = {name: self._told(str(event[name])) for name in ("handoff", "result") if name in event}
        left = {**event, **words}
        if isinstance(event.get("refs"), list):
            left["refs"] = [self._ref(ref) for ref in event["refs"]]
        artifacts = map(self._artifact, _list(event.get("artifacts")))
        return self._with_artifacts(left, [each for each in artifacts if each is not None])

    def _artifact(self, artifact: Any) -> Any:
        """A child's file: dropped if it holds erased text, renamed if its name does."""
        if not isinstance(artifact, dict):
            return artifact
        name, blob = str(artifact.get("name")), _id_in(artifact.get("blob"))
        if blob in self.blobs:
            return None
        return {**artifact, "name": f"forgotten-{str(blob)[-16:]}"} if self._told(name) != name else artifact

    def _with_artifacts(self, event: Record, artifacts: list[Any]) -> Record:
        """The end event of a child with only these artifacts."""
        if artifacts == _list(event.get("artifacts")):
            return event
        ids = {_id_in(each.get("blob")) for each in artifacts if isinstance(each, dict)}
        control = event.get("ctx") or {}
        blobs = [blob for blob in _list(control.get("blobs")) if _id_in(blob) in ids]
        return {**event, "artifacts": artifacts, "ctx": {**control, "blobs": blobs}}

    def _told(self, text: str) -> str:
        """A text without erased texts and without lines that paraphrase them."""
        lines = self._said(text).split("\n")
        return "\n".join(FORGOTTEN if self.tells and self.tells(line) else line for line in lines)

    def _may_tell(self, last: int) -> bool:
        """Whether a summary up to this message may hold erased text; True in doubt."""
        return bool(self.summaries) and not 0 < last < self.summaries

    def _field(self, name: str, value: Any, turn: str) -> Any:
        if name in _STRUCTURE:
            return value
        if name == "operations":
            return [self._operation(operation) for operation in value]
        if name == "epoch" and isinstance(value, dict):
            return {tier: [item for item in items if self._may_stay(item)] for tier, items in value.items()}
        if name in ("trailer", "text") and isinstance(value, str):
            return FORGOTTEN if value and turn in self.trailers else self._said(self._without_items(value))
        if name == "active_task" and value in self.tasks:
            return ""
        return _in_strings(value, self._kept if name in ("active_task", "capabilities") else self._said)

    def _without_texts(self, event: Record) -> Record:
        """The start event without the texts that were sent, which may paraphrase erased text.

        The protocol text is ctxwrap's own, so it stays.
        """
        sent, control = event.get("sent"), event.get("ctx")
        if not isinstance(sent, dict) or not isinstance(control, dict):
            return event
        state = sent.get("state")
        memory = state.get("memory") if isinstance(state, dict) else None
        left = {tier: list(filter(self._may_stay, items)) for tier, items in memory.items()} if memory else {}
        sent = {**sent, "state": {**(state or {}), "memory": left}}
        if texts_in(event).keys() <= {_OURS}:
            return {**event, "sent": sent}
        texts = {name: id if name == _OURS else "" for name, id in texts_in(event).items()}
        blobs = [blob for blob in control.get("blobs") or () if _id_in(blob) == texts.get(_OURS)]
        sent = {**sent, "texts": texts}
        control = {name: value for name, value in control.items() if name != "blobs"}
        return {**event, "sent": sent, "ctx": {**control, "blobs": blobs} if blobs else control}

    def _may_stay(self, item: Any) -> bool:
        """Whether a memory item, as shown to the model, is free of erased text."""
        if not isinstance(item, dict) or item.get("id") in self.ids:
            return False
        is_kept = (str(item.get("id")), str(item.get("content"))) not in self.versions
        return is_kept and _in_strings(item, self._said) == item

    def _ref(self, ref: Any) -> Any:
        """A child's reference: id and kind have no free text."""
        if not isinstance(ref, dict):
            return _in_strings(ref, self._told)
        return {
            name: value if name in ("id", "kind") else _in_strings(value, self._told) for name, value in ref.items()
        }

    def _without_blobs(self, event: Record) -> Record:
        control = event.get("ctx")
        if isinstance(control, dict) and isinstance(control.get("blobs"), list):
            left = [blob for blob in control["blobs"] if _id_in(blob) not in self.blobs]
            event = {**with_named_texts(event), "ctx": {**control, "blobs": left}}
        return event

    def says(self, data: bytes) -> bool:
        """Whether a file holds an erased text."""
        text = data.decode("utf-8", "replace")
        return self._said(text) != text

    def tells_in(self, data: bytes) -> bool:
        """Whether a child's file holds it, paraphrased or in UTF-16, too."""
        texts = [form.decode("utf-8", "replace") for form in {data, data.replace(b"\0", b"")}]
        return any(self._told(text) != text for text in texts)

    def _operation(self, operation: Record) -> Record:
        item = operation.get("item")
        if not item:
            return operation
        if self.concerns(item):
            return {**operation, "item": _blank(item)}
        return {**operation, "item": {name: self._item_field(name, value) for name, value in item.items()}}

    def _item_field(self, name: str, value: Any) -> Any:
        return value if name in _STRUCTURE - {"type"} else _in_strings(value, self._kept)

    def concerns(self, item: Mapping[str, Any]) -> bool:
        """Whether a memory item in an event is erased."""
        return item.get("id") in self.ids or (item.get("id"), item.get("content")) in self.versions

    def _without_items(self, trailer: str) -> str:
        """A trailer without the texts of these items; empty if it cannot be parsed."""
        if not any(spelling in trailer for id in self.ids for spelling in _spellings(id)):
            return trailer
        start = max(0, trailer.find("{"))
        try:
            state, end = json.JSONDecoder().raw_decode(trailer, start)
        except (ValueError, RecursionError):
            return FORGOTTEN
        if trailer[end:].strip("` \n"):
            return FORGOTTEN
        left = _without_ids(state, self.ids)
        return trailer if left == state else trailer[:start] + json.dumps(left, ensure_ascii=False) + trailer[end:]

    def _said(self, text: str) -> str:
        return _without(text, self.texts)

    def _kept(self, text: str) -> str:
        """The texts of other memory items, in which a short erased text is an ordinary word."""
        return _without(text, (banned for banned in self.texts if len(banned) >= LONG))


def redaction(
    events: Iterable[Record],
    *,
    ids: Iterable[str],
    versions: Iterable[tuple[str, str]] = (),
    texts: Iterable[str] = (),
    tasks: Iterable[str] = (),
    turn: str = "",
    message: int = 0,
) -> EventRedaction:
    """What is erased from `events` with these items and texts, including every text in which a turn wrote such an item.

    Summaries are erased from the first source message of an item on, and from `message` on.
    """
    wanted = EventRedaction(ids=frozenset(ids), versions=frozenset(versions))
    touched = [(at, item) for at, item in items_in(events) if wanted.concerns(item)]
    sources = [message_range(str(item.get("source")))[0] for _, item in touched]
    asked = questions_in(events, turn) if turn else {}
    said = (*texts, *tasks, *(str(item.get("content")) for _, item in touched), *asked.values())
    banned = {text.strip() for text in said}
    return EventRedaction(
        ids=wanted.ids,
        versions=wanted.versions,
        texts=tuple(sorted(banned - {"", FORGOTTEN}, key=lambda text: (-len(text), text))),
        tasks=frozenset(tasks),
        trailers=frozenset({at for at, _ in touched} | ({turn} if turn else set())),
        choices=frozenset({turn} if turn else ()),
        questions=frozenset(asked),
        summaries=min([*sources, *([message] if message else [])], default=1),
    )


def with_contents(gone: EventRedaction, events: Iterable[Record], load: Callable[[Record], bytes]) -> EventRedaction:
    """The redaction, extended by the blobs that hold an erased text."""
    found = set[str]()
    for event in events:
        holds = gone.tells_in if event.get("type") in CHILD_EVENTS else gone.says
        for blob in blobs_in(event):
            with suppress(LookupError):
                found |= {blob["id"]} if holds(load(blob)) else set()
    return gone._replace(blobs=frozenset(found))


def items_in(events: Iterable[Record]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every version of every memory item in events, with its turn."""
    for event in events:
        for operation in event.get("operations") or ():
            if operation.get("item"):
                yield turn_in(event), operation["item"]


def questions_in(events: Iterable[Record], turn: str) -> dict[str, str]:
    """The questions of the model, by id, with their turn."""
    detected = (event for event in events if event.get("type") == DETECTED and turn_in(event) == turn)
    asked = (each for event in detected if (each := changed_by(event, None)) is not None and each.source == MODEL)
    return {each.id: each.question for each in asked if each.id}


def tombstone(record: Record, time: str) -> Record:
    """What remains of a purged message: its number, its links, and its digest to recognise it when it is sent again."""
    control = {name: value for name, value in (record.get("ctx") or {}).items() if name != "blob"}
    try:
        known = {"digest": control.get("digest") or digest(message_in(record))}
    except ValueError:
        known = {}
    calls = [{**call, "arguments": "{}"} for call in record.get("tool_calls") or () if isinstance(call, dict)]
    left = {"role": record.get("role", "user"), "content": "", "tool_call_id": record.get("tool_call_id")}
    left["tool_calls"] = [{name: call.get(name, "") for name in ("id", "name", "arguments")} for call in calls]
    control |= {"purged": time, **known}
    return {**{name: value for name, value in left.items() if name == "content" or value}, "ctx": control}


def placeholder(message: Message) -> Message:
    """A purged message as the model sees it, since providers reject empty ones."""
    return message if message.tool_calls else message._replace(content=PURGED)


def emptied(choice: Record) -> Record:
    """Another choice of a reply, without its text."""
    left = {name: value for name, value in choice.items() if name in _STRUCTURE}
    return {**left, "content": FORGOTTEN, "ctx": choice["ctx"]}


def unanswered(event: Record) -> Record:
    """The event of a turn that answers a message purged meanwhile: it may drop memory items, but write none."""
    if "operations" not in event:
        return event
    left = {name: value for name, value in event.items() if name not in ("capabilities", "active_task")}
    return {**left, "operations": [operation for operation in event["operations"] if not operation.get("item")]}


def without_facts(event: Record, is_forgotten: Callable[[str], bool]) -> Record:
    """An event without operations that write a forgotten fact under another id."""
    if "operations" not in event:
        return event
    kept = [each for each in event["operations"] if not (each.get("item") and is_forgotten(each["item"]["content"]))]
    return {**event, "operations": kept}


def _blank(item: Mapping[str, Any]) -> Record:
    """An item with the same weight and no text, so that the other items keep their places."""
    pinned = (item.get("extra") or {}).get("pinned") is True
    left = {name: value for name, value in item.items() if name != "extra"}
    return {
        **left,
        "type": "forgotten",
        "content": FORGOTTEN,
        "tags": [],
        **({"extra": {"pinned": True}} if pinned else {}),
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _id_in(value: Any) -> Any:
    blob = reference_in(value)
    return blob.get("id") if isinstance(blob, dict) else None


def _without_ids(value: Any, ids: frozenset[str]) -> Any:
    if isinstance(value, dict):
        if str(value.get("id")) in ids:
            return {"id": value["id"], "content": FORGOTTEN}
        return {name: _without_ids(each, ids) for name, each in value.items()}
    return [_without_ids(each, ids) for each in value] if isinstance(value, list) else value


def _in_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):  # ctxwrap's own names are identifiers
        return {
            name if name.isidentifier() else change(name): _in_strings(each, change) for name, each in value.items()
        }
    return [_in_strings(each, change) for each in value] if isinstance(value, list) else value


def _without(text: str, banned: Iterable[str]) -> str:
    for each in banned:
        for spelling in _spellings(each):
            if spelling not in text:
                continue
            if len(each) >= LONG:
                text = text.replace(spelling, FORGOTTEN)
            else:
                text = re.sub(rf"(?:(?<!\w)|(?<=\\[bfnrt])){re.escape(spelling)}(?!\w)", FORGOTTEN, text)
    return text


def _spellings(text: str) -> set[str]:
    """The spellings of a text in a model's output: plain and JSON-escaped."""
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
