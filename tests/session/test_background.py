"""Work in the background: done once for all that came up, and done when somebody waits for it."""

import threading

from ctxwrap.session.background import Background


def test_only_the_newest_work_of_a_subject_runs() -> None:
    background, done = Background(), list[str]()
    for text in ("first", "second", "third"):
        background.schedule("subject", lambda text=text: done.append(text), starts=False)
    background.schedule("other", lambda: done.append("other"), starts=False)
    background.finish()
    background.finish()
    assert done == ["third", "other"]


def test_finish_runs_only_the_selected_subjects() -> None:
    background, done = Background(), list[str]()
    for subject in ("a", "b"):
        background.schedule(subject, lambda subject=subject: done.append(subject), starts=False)
    background.finish(lambda subject: subject == "b")
    assert done == ["b"]


def test_failed_work_does_not_stop_other_work() -> None:
    background, done = Background(), list[str]()
    background.schedule("a", lambda: done[1], starts=False)
    background.schedule("b", lambda: done.append("b"), starts=False)
    background.finish()
    assert done == ["b"]


def test_background_thread_runs_scheduled_work() -> None:
    background, done = Background(), threading.Event()
    background.schedule("a", done.set)
    assert done.wait(60)
    background.finish()


def test_finish_waits_for_running_work() -> None:
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
