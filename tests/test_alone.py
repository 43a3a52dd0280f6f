"""The room in which tests run side by side, or one alone."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from tests.alone import Room


def test_several_are_in_the_room_together_or_one_alone(tmp_path: Path) -> None:
    first, second, waiting = (Room(tmp_path) for _ in range(3))
    entered, leave = threading.Event(), threading.Event()

    def alone() -> None:
        with waiting.entered(alone=True):
            entered.set()
            leave.wait(10)

    with first.entered(alone=False), second.entered(alone=False):
        thread = threading.Thread(target=alone)
        thread.start()
        assert not entered.wait(0.1)
    assert entered.wait(10)
    late = threading.Event()

    def with_others() -> None:
        with first.entered(alone=False):
            late.set()

    other = threading.Thread(target=with_others)
    other.start()
    assert not late.wait(0.1)
    leave.set()
    assert late.wait(10)
    thread.join()
    other.join()


def test_who_comes_after_one_that_waits_to_be_alone_waits_too(tmp_path: Path) -> None:
    inside, waiting, after = (Room(tmp_path) for _ in range(3))
    order: list[str] = []

    def go(room: Room, name: str, alone: bool) -> None:
        with room.entered(alone):
            order.append(name)

    threads = [
        threading.Thread(target=go, args=(waiting, "alone", True)),
        threading.Thread(target=go, args=(after, "with others", False)),
    ]
    with inside.entered(alone=False):
        threads[0].start()
        until = time.monotonic() + 60
        while free(Room(tmp_path).door) and time.monotonic() < until:
            time.sleep(0.005)
        threads[1].start()
        threads[1].join(0.1)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == ["alone", "with others"]


def free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)  # and lets go of it
    return True


@pytest.mark.parametrize("alone", [True, False])
def test_a_test_that_fails_leaves_the_room(alone: bool, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Room(tmp_path).entered(alone):
        _ = 1 / 0
    with Room(tmp_path).entered(alone=True):
        pass
