"""Work in the background: done once for all that came up, and done when somebody waits for it."""

import threading

from ctxwrap.session.background import Background


def test_work_for_one_subject_is_done_once_and_is_the_newest() -> None:
    background, done = Background(), list[str]()
    for text in ("first", "second", "third"):
        background.schedule("subject", lambda text=text: done.append(text), starts=False)
    background.schedule("other", lambda: done.append("other"), starts=False)
    background.finish()
    background.finish()
    assert done == ["third", "other"]


def test_only_what_is_wanted_is_waited_for() -> None:
    background, done = Background(), list[str]()
    for subject in ("a", "b"):
        background.schedule(subject, lambda subject=subject: done.append(subject), starts=False)
    background.finish(lambda subject: subject == "b")
    assert done == ["b"]


def test_work_that_fails_keeps_no_other_from_being_done() -> None:
    background, done = Background(), list[str]()
    background.schedule("a", lambda: done[1], starts=False)
    background.schedule("b", lambda: done.append("b"), starts=False)
    background.finish()
    assert done == ["b"]


def test_a_thread_does_it_by_itself() -> None:
    background, done = Background(), threading.Event()
    background.schedule("a", done.set)
    assert done.wait(60)
    background.finish()


def test_who_finishes_waits_for_work_that_has_begun() -> None:
    background, begun, ended = Background(), threading.Event(), list[bool]()
    goes_on = threading.Event()

    def work() -> None:
        begun.set()
        goes_on.wait(60)
        ended.append(True)

    background.schedule("a", work)
    assert begun.wait(60)
    threading.Timer(0.05, goes_on.set).start()
    background.finish()
    assert ended == [True]
