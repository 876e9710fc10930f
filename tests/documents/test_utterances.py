"""What rules make of two hundred utterances, by expectations that were written before the rules."""

from ctxwrap.documents.document import EMPTY, grow
from ctxwrap.documents.summary import summarise_message
from tests.documents.utterances import is_held_out, utterances

UTTERANCES = utterances()
SUMMARIES = [summarise_message(each.raw) for each in UTTERANCES]
DOCUMENTS = [grow(EMPTY, [each.raw]) for each in UTTERANCES]


def _has(text: str, part: str) -> bool:
    return part.casefold() in text.casefold()


def test_corpus_has_200_utterances_and_a_quarter_is_held_out() -> None:
    assert len(UTTERANCES) == 200
    assert sum(map(is_held_out, UTTERANCES)) == 50
    assert sum(len(each.kept) for each in UTTERANCES) > 500
    assert all(each.kept or each.false or len(each.raw.text) < 30 for each in UTTERANCES)


def test_no_summary_and_no_document_says_anything_false() -> None:
    for texts in (SUMMARIES, DOCUMENTS):
        said = zip(UTTERANCES, texts, strict=True)
        assert [(text, part) for each, text in said for part in each.false if _has(text, part)] == []


def test_summaries_keep_informative_parts() -> None:
    for held_out in (False, True):
        wanted = [
            (part, summary)
            for each, summary in zip(UTTERANCES, SUMMARIES, strict=True)
            if is_held_out(each) == held_out
            for part in each.kept
        ]
        lost = [(part, summary) for part, summary in wanted if not _has(summary, part)]
        assert len(lost) <= 0.1 * len(wanted), lost


def test_no_summary_is_longer_than_its_utterance() -> None:
    both = zip(UTTERANCES, SUMMARIES, strict=True)
    assert [summary for each, summary in both if len(summary) > len(each.raw.text)] == []


def test_summaries_leave_out_filler() -> None:
    wanted = [(part, summary) for each, summary in zip(UTTERANCES, SUMMARIES, strict=True) for part in each.filler]
    kept = [summary for part, summary in wanted if _has(summary, part)]
    assert len(kept) <= 0.1 * len(wanted), kept
