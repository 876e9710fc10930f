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


def test_pending_work_that_does_more_stays() -> None:
    background, done = Background(), list[str]()
    for text, replaces in (("first", False), ("second", True), ("third", False)):
        background.schedule("subject", lambda text=text: done.append(text), replaces=replaces, starts=False)
    background.finish()
    assert done == ["second"]


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
    background, done = Background(quiet=0), threading.Event()
    background.schedule("a", done.set)
    assert done.wait(60)
    background.finish()


def test_finish_waits_for_running_work() -> None:
    background, begun, ended = Background(quiet=0), threading.Event(), list[bool]()
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


def test_urgent_work_does_not_wait_until_its_subject_is_quiet() -> None:
    background, done = Background(), threading.Event()
    background.schedule("a", lambda: None)
    background.schedule("b", lambda: None)
    background.schedule("b", done.set, is_urgent=True)
    assert done.wait(60)
    background.finish()


def test_work_of_a_subject_that_is_never_quiet_is_not_put_off_for_ever() -> None:
    background, done, ended = Background(quiet=1, latest=0), list[int](), threading.Event()

    def work(number: int) -> None:
        done.append(number)
        ended.set()

    number = 0
    while not ended.wait(0.01):
        number += 1
        background.schedule("busy", lambda number=number: work(number))
    background.finish()
    assert done[0] > 1


def test_of_more_subjects_than_may_wait_the_one_quiet_for_longest_is_due() -> None:
    background, done, ended = Background(most=2), list[str](), threading.Event()

    def work(subject: str) -> None:
        done.append(subject)
        ended.set()

    for subject in ("a", "b", "c"):
        background.schedule(subject, lambda subject=subject: work(subject), starts=False)
    background.schedule("a", lambda: work("a"))
    assert ended.wait(60)
    assert done == ["b"]
    background.finish()
    assert done == ["b", "c", "a"]
