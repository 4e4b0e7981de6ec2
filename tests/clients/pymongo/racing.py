"""Threads that begin at once."""

import threading


def race(threads, work):
    """Runs `work(thread)` for each number below `threads` at once; what one of them raises fails the script."""
    start = threading.Barrier(threads)
    failures = []

    def run(thread):
        try:
            start.wait()
            work(thread)
        except BaseException as failure:
            failures.append(failure)

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert failures == [], failures
