"""Brings a returned state into canonical form, and lists repairs and violations."""

import json
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxwrap.protocol.fields import (
    COERCIONS,
    arrange_state,
    as_item,
    as_items,
    as_rows,
    as_text,
    parse_packed,
    question_in,
)
from ctxwrap.protocol.instructions import VERSION
from ctxwrap.protocol.repair.strict import Unreadable, is_unstorable
from ctxwrap.protocol.vocabulary import (
    ID_LISTS,
    ITEM_KEYS,
    MAX_CAPABILITIES,
    MAX_CAPABILITY,
    MAX_CONTENT,
    MAX_ITEMS,
    MAX_QUESTIONS,
    MAX_WORD,
    OPTIONAL_KEYS,
    ROOT_KEYS,
    TIERS,
    canonical_key,
    canonical_tier,
    is_ellipsis,
)
from ctxwrap.types import Runtime

if TYPE_CHECKING:
    from ctxwrap.protocol.repair.by_keys import Draft

State = Mapping[str, Any]


def empty_state() -> dict[str, Any]:
    return {"memory": {tier: [] for tier in TIERS}, "capabilities": [], "active_task": ""}


def with_runtime(state: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    """Add version and runtime to `state`, in canonical order."""
    return {"version": VERSION, "runtime": runtime.as_json(), **state}


class Normalised(NamedTuple):
    """A canonical snapshot, the repairs and the violations."""

    snapshot: dict[str, Any]
    repairs: tuple[str, ...]
    violations: tuple[str, ...]
    whole: bool
    """Whether everything the model wrote was accepted."""


def normalise(data: dict[str, Any], runtime: dict[str, Any], previous: State) -> Normalised:
    """Normalise `data` and restore `runtime`; raise Unreadable if it is not a state.

    Missing or invalid parts keep their values from `previous`, the state the model was shown: only omission from a list
    means removal, a mistake does not.
    """
    returned = data.get("runtime")
    if isinstance(returned, dict) and canonical_items(snapshot := {**data, "runtime": runtime}) is not None:
        return Normalised(snapshot, (), tuple(runtime_violations(returned, runtime)), True)
    normaliser = _Normaliser(runtime, previous)
    snapshot = normaliser.snapshot(data)
    return Normalised(snapshot, tuple(normaliser.repairs), tuple(normaliser.violations), normaliser.whole)


def added_size(snapshot: State, previous: State) -> int:
    """Count the characters of JSON that a snapshot adds to `previous`; decay and round do not count."""
    known = {item["id"]: item for item in _items_of(previous)}
    memory = snapshot["memory"]
    items = memory["core"] + memory["working"] + memory["ephemeral"]
    new = [item for item in items if item != (was := known.get(item["id"])) and not _is_same(item, was)]
    beside = [snapshot[name] for name in _KEPT if snapshot[name] != previous.get(name)]
    return sum([len(_encode(each)) for each in (*new, *beside)])


_encode = json.JSONEncoder(ensure_ascii=False).encode
"""A shared encoder: `json.dumps` with options creates one per call."""


def _is_same(item: State, known: State | None) -> bool:
    return known is not None and {**known, "decay": item["decay"], "round": item["round"]} == item


def stale_round(returned: Any, injected: State) -> int | None:
    """Return the earlier round that the runtime `returned` belongs to, if it shows nothing of this one."""
    if not isinstance(returned, dict) or not isinstance(returned.get("round"), int):
        return None
    if returned["round"] >= injected.get("round", 0):
        return None
    then, now = returned.get("datetime", ""), injected.get("datetime", "")
    return returned["round"] if isinstance(then, str) and then < now else None


def complete_draft(draft: "Draft", previous: State) -> dict[str, Any]:
    """Complete `draft` with previous values for what was cut off or replaced by an ellipsis."""
    data = draft.data
    if not draft.cut and not draft.elided_tiers:
        return data
    memory = dict(data.get("memory") or {})
    ended = (draft.ended_tiers if draft.cut else memory.keys()) - draft.elided_tiers
    here = {str(item.get("id")) for items in memory.values() for item in items}
    for tier, items in _tiers_of(previous).items():
        if tier not in ended:
            memory[tier] = [*memory.get(tier, []), *(item for item in items if item["id"] not in here)]
    return {**{name: previous[name] for name in _KEPT if name in previous}, **data, "memory": memory}


_KEPT = ("capabilities", "active_task")


def canonical_items(data: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the items of a state in canonical form; None if it has another form."""
    from ctxwrap.protocol.models import is_valid

    if not is_valid(data):
        return None
    memory = data["memory"]
    items: list[dict[str, Any]] = memory["core"] + memory["working"] + memory["ephemeral"]
    if len(set(map(_id_of, items))) < len(items) or not all(map(_is_capability, data["capabilities"])):
        return None
    if len(data) > len(ROOT_KEYS) and any(is_unstorable(data.get(name)) for name in ("working_set", "missing")):
        return None
    if max(map(len, items), default=0) > len(ITEM_KEYS):
        extra = ((key, item[key]) for item in items for key in item.keys() - ITEM_KEYS)
        if any(is_unstorable(key) or is_unstorable(value) for key, value in extra):
            return None
    return items


_id_of = itemgetter("id")


def _is_capability(entry: Any) -> bool:
    if not isinstance(entry, (dict, str)) or is_unstorable(entry):
        return False
    return len(entry if isinstance(entry, str) else _encode(entry)) <= MAX_CAPABILITY


def runtime_violations(returned: Any, injected: State) -> list[str]:
    """List what the model changed in the runtime that it was shown."""
    if not isinstance(returned, dict):
        return ["runtime is missing"]
    if returned == injected:
        return []
    return [
        f"runtime.{name} was changed from {value!r} to {str(returned.get(name))[:40]!r}"
        for name, value in injected.items()
        if returned.get(name) != value
    ]


def _items_of(state: State) -> list[dict[str, Any]]:
    memory = state.get("memory") or {}
    return [item for tier in TIERS for item in memory.get(tier) or () if isinstance(item, dict) and "id" in item]


def _tiers_of(state: State) -> dict[str, list[dict[str, Any]]]:
    memory = state.get("memory") or {}
    return {
        tier: [item for item in memory.get(tier) or () if isinstance(item, dict) and "id" in item] for tier in TIERS
    }


class _Normaliser:
    def __init__(self, runtime: dict[str, Any], previous: State) -> None:
        self.repairs: list[str] = []
        self.violations: list[str] = []
        self.whole = True
        self._runtime = runtime
        self._previous = previous
        self._before = _tiers_of(previous)
        self._known = {item["id"]: item for item in _items_of(previous)}
        self._seen: dict[str, dict[str, Any]] = {}
        self._unfinished: set[str] = set()
        self._numbers = _Numbers(self._known)
        self._is_delta = False

    def snapshot(self, data: dict[str, Any]) -> dict[str, Any]:
        root = self._root(data)
        self.violations += runtime_violations(root.get("runtime"), self._runtime)
        memory = self._memory(root["memory"], may_be_empty=self._is_delta)
        return {
            "version": VERSION,
            "runtime": self._runtime,
            "memory": memory,
            **{name: self._ids(name, root[name]) for name in ID_LISTS if name in root},
            "capabilities": self._capabilities(root),
            "active_task": self._active_task(root),
            **self._working_set(root),
            **self._missing(root),
        }

    def _note_repair(self, name: str) -> None:
        if name not in self.repairs:
            self.repairs.append(name)

    def _refuse(self, fault: str) -> None:
        self.violations.append(fault)
        self.whole = False

    def _root(self, data: dict[str, Any]) -> dict[str, Any]:
        found = arrange_state(data)
        if found is None:
            known = [canonical_key(key) for key in data]
            raise Unreadable("its memory names no tier" if "memory" in known else "it has no memory object")
        root, name = found
        self._is_delta = any(name in root for name in ID_LISTS)
        if name:
            self._note_repair(name)
        if root.get("version") != VERSION:
            self._note_repair("version")
        self.violations += [
            f"unknown field {key[:40]!r} dropped" for key in root if key not in (*ROOT_KEYS, *OPTIONAL_KEYS)
        ]
        return root

    def _memory(self, memory: dict[str, Any], may_be_empty: bool) -> dict[str, list[dict[str, Any]]]:
        tiers: dict[str, list[dict[str, Any]]] = {}
        for name, value in memory.items():
            tier = name if name in TIERS else canonical_tier(name)
            if not tier:
                self._refuse(f"unknown tier {name[:40]!r} dropped")
                continue
            if tier != name:
                self._note_repair("tier-spelling")
            if value is not None:
                tiers.setdefault(tier, []).extend(self._tier(tier, value))
        if not tiers and not (may_be_empty and not memory):
            raise Unreadable("its memory names no tier")
        if len(tiers) < len(TIERS):
            if not self._is_delta:
                self._note_repair("missing-tier")
            self._unfinished.update(tier for tier in TIERS if tier not in tiers)
        return {tier: (tiers.get(tier, []) + self._unchanged(tier))[:MAX_ITEMS] for tier in TIERS}

    def _unchanged(self, tier: str) -> list[dict[str, Any]]:
        """Return the former items of an incomplete tier that the model did not mention."""
        items = [item for item in self._before[tier] if item["id"] not in self._seen and tier in self._unfinished]
        self._seen.update((item["id"], item) for item in items)
        return items

    def _tier(self, tier: str, value: Any) -> list[dict[str, Any]]:
        raw = self._as_list(value)
        if len(raw) > MAX_ITEMS:
            self._refuse(f"{tier} has {len(raw)} items, more than {MAX_ITEMS}")
        kept = [item for given in raw[:MAX_ITEMS] if (item := self._item(tier, given)) is not None]
        if any(map(is_ellipsis, raw)):
            self._note_repair("ellipsis")
            self._unfinished.add(tier)
        elif raw and not kept:
            self._unfinished.add(tier)
        return kept

    def _as_list(self, value: Any) -> list[Any]:
        given, value = value, parse_packed(value)
        items = as_rows(value) if isinstance(value, list) else as_items(value) if isinstance(value, dict) else [value]
        if not all(isinstance(item, dict) for item in items):
            items = [as_item(item) for item in items]
        if items != given:
            self._note_repair("tier-shape")
        return items

    def _item(self, tier: str, given: Any) -> dict[str, Any] | None:
        if is_ellipsis(given):
            return None
        item = (
            self._completed(self._identified(tier, self._coerced(self._storable(tier, self._spelled(given)))))
            if isinstance(given, dict)
            else given
        )
        fault = _fault(item)
        if fault:
            self._refuse(f"{tier} item dropped: {fault}")
            id = item.get("id") if isinstance(item, dict) else None
            item = self._known.get(id) if isinstance(id, str) and id not in self._seen else None
        return self._unique(item) if item is not None else None

    def _spelled(self, given: dict[str, Any]) -> dict[str, Any]:
        if all(key in given for key in ITEM_KEYS):
            return dict(given)
        item = {
            name if (name := canonical_key(key)) in ITEM_KEYS and name not in given else key: value
            for key, value in given.items()
        }
        if item.keys() != given.keys():
            self._note_repair("key-spelling")
        return item

    def _storable(self, tier: str, item: dict[str, Any]) -> dict[str, Any]:
        """Remove extra fields that cannot be stored."""
        unstorable = [
            key for key, value in item.items() if key not in ITEM_KEYS and (is_unstorable(key) or is_unstorable(value))
        ]
        for key in unstorable:
            self._refuse(f"{tier} item {item.get('id')!r:.60}: field {key!r:.60} dropped, it cannot be kept")
        return {key: value for key, value in item.items() if key not in unstorable}

    def _coerced(self, item: dict[str, Any]) -> dict[str, Any]:
        for name, coerce in COERCIONS.items():
            if name in item:
                value = coerce(item[name])
                if value != item[name] or type(value) is not type(item[name]):
                    self._note_repair(name)
                    item[name] = value
        return item

    def _identified(self, tier: str, item: dict[str, Any]) -> dict[str, Any]:
        """Add a missing id to an item with content: that of the shown item, or a new one."""
        content = item.get("content")
        if item.get("id") is not None or not isinstance(content, str) or not content.strip():
            return item
        self._note_repair("missing-id")
        shown = (old["id"] for old in self._before[tier] if old.get("content") == content)
        id = next((id for id in shown if id not in self._seen), None) or self._numbers.free(f"{tier}-0")
        return {"id": id, **{key: value for key, value in item.items() if key != "id"}}

    def _completed(self, item: dict[str, Any]) -> dict[str, Any]:
        """Add missing fields from the shown item, else with neutral values."""
        known = self._known.get(item["id"], {}) if isinstance(item.get("id"), str) else {}
        harmless = {"type": "fact", "decay": 0.5, "round": self._runtime.get("round", 0), "tags": []}
        for key in ITEM_KEYS:
            if item.get(key) is None and (key in known or key in harmless):
                self._note_repair("missing-fields")
                item[key] = known.get(key, harmless.get(key))
        return item

    def _unique(self, item: dict[str, Any]) -> dict[str, Any] | None:
        known = self._seen.get(item["id"])
        if known == item:
            self._note_repair("duplicate-items")
            return None
        if known is not None:
            self._note_repair("duplicate-ids")
            item = {**item, "id": self._numbers.free(item["id"])}
        self._numbers.add(item["id"])
        self._seen[item["id"]] = item
        return item

    def _ids(self, name: str, given: Any) -> list[str]:
        """Read a list of ids; some models write whole objects."""
        named = given if isinstance(given, list) else [] if given is None else [given]
        ids = [entry.get("id") if isinstance(entry, dict) else entry for entry in named]
        kept = [id for id in ids if isinstance(id, str) and 0 < len(id) <= MAX_WORD and not is_unstorable(id)][
            :MAX_ITEMS
        ]
        if kept != given:
            self._note_repair(name)
        if len(kept) < len(ids):
            self._refuse(f"what names no memory was left out of {name}")
        return kept

    def _working_set(self, root: State) -> dict[str, Any]:
        """Keep the field as it is: memory does not depend on it."""
        if "working_set" not in root:
            return {}
        if is_unstorable(root["working_set"]):
            self.violations.append("what was asked of the working set cannot be kept")
            return {}
        return {"working_set": root["working_set"]}

    def _missing(self, root: State) -> dict[str, Any]:
        """Return the open questions; an unreadable list leaves them as they were."""
        given = root.get("missing")
        if given is None:
            return {}
        named = given if isinstance(given, list) else [given]
        written = [each for each in named if not is_ellipsis(each)]
        kept = [question for each in written if (question := question_in(each)) is not None]
        if len(written) < len(named):
            kept += [each for each in self._previous.get("missing") or () if each not in kept]
        if len(kept) < len(written) or len(kept) > MAX_QUESTIONS:
            self.violations.append("what is no question, or too many, was left out of missing")
        if kept != given:
            self._note_repair("missing")
        return {"missing": kept[:MAX_QUESTIONS]} if kept or not named else {}

    def _capabilities(self, root: State) -> list[Any]:
        value = root.get("capabilities")
        if isinstance(value, (dict, str)) and value:
            self._note_repair("capabilities")
            value = [value]
        if value == {}:
            value = []
        if not isinstance(value, list):
            if not self._is_delta or value is not None:
                self._note_repair("missing-fields")
            return list(self._previous.get("capabilities") or ())
        kept = [entry for entry in value[:MAX_CAPABILITIES] if _is_capability(entry)]
        if len(kept) < len(value):
            self._refuse(f"capabilities that cannot be kept, or more than {MAX_CAPABILITIES}, were dropped")
        return kept

    def _active_task(self, root: State) -> str:
        value = root.get("active_task")
        if not isinstance(value, str) or len(value) > MAX_CONTENT:
            if not self._is_delta or value is not None:
                self._note_repair("missing-fields")
            return self._previous.get("active_task") or ""
        text: str = as_text(value)
        if text != value:
            self._note_repair("active_task")
        return text


def _fault(item: Any) -> str:
    """Return an item's fault, or ""."""
    from ctxwrap.protocol.models import fault_of

    fault = fault_of(item)
    id = item.get("id") if isinstance(item, dict) else None
    return f"{str(id)[:40]!r}: {fault}" if fault and id else fault


class _Numbers:
    """The highest number in use per id stem."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._highest: dict[str, int] = {}
        for id in ids:
            self.add(id)

    def add(self, id: str) -> None:
        stem = id.rstrip("0123456789")
        number = id[len(stem) :]
        if 0 < len(number) <= _DIGITS:
            self._highest[stem] = max(int(number), self._highest.get(stem, 1))

    def free(self, id: str) -> str:
        """Return `id` with the next free number."""
        stem = id.rstrip("0123456789")
        number = id[len(stem) :]
        stem = stem if number else f"{id}-"
        return f"{stem}{self._highest.get(stem, 1 if id != f'{stem}0' else 0) + 1:0{len(number) or 1}d}"


_DIGITS = 9
