"""Tasks that fail, and for whose results nobody asks; the healthy kinds ask in some way, or have no use for them. Each ends with code 0."""
import asyncio
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing.pool import ThreadPool

CONTEXT = multiprocessing.get_context("fork")
failed = []


def decode(number):
    time.sleep(.01)
    if number == 3:
        raise ValueError("sample %d is broken" % number)
    return number


def caught(ask):
    try:
        ask()
    except ValueError as error:
        failed.append(error)


def with_pool(use, make=CONTEXT.Pool):
    with make(2) as pool:
        use(pool)
        pool.close()
        pool.join()


def with_executor(use, make=lambda: ProcessPoolExecutor(2, CONTEXT)):
    with make() as executor:
        use(executor)


def apply_all(pool, **options):
    return [pool.apply_async(decode, (number,), **options) for number in range(6)]


def submit_all(executor):
    return [executor.submit(decode, number) for number in range(6)]


def threads():
    return ThreadPoolExecutor(2)


async def gather():
    with threads() as executor:
        calls = [asyncio.get_event_loop().run_in_executor(executor, decode, number) for number in range(6)]
        failed.extend(await asyncio.gather(*calls, return_exceptions=True))


JOBS = {
    "apply": lambda: with_pool(apply_all),
    "map-async": lambda: with_pool(lambda pool: pool.map_async(decode, range(6))),
    "threads-apply": lambda: with_pool(apply_all, ThreadPool),
    "submit": lambda: with_executor(submit_all),
    "executor-map": lambda: with_executor(lambda executor: executor.map(decode, range(6))),
    "threads-submit": lambda: with_executor(submit_all, threads),
    "get": lambda: with_pool(lambda pool: [caught(each.get) for each in apply_all(pool)]),
    "map": lambda: with_pool(lambda pool: caught(lambda: pool.map(decode, range(6)))),
    "one-by-one": lambda: with_pool(lambda pool: [caught(lambda: pool.apply(decode, (3,))) for _ in range(40)]),
    "error-callback": lambda: with_pool(lambda pool: apply_all(pool, error_callback=failed.append)),
    "successful": lambda: with_pool(lambda pool: [(each.wait(), each.successful()) for each in apply_all(pool)]),
    "early-break": lambda: with_pool(lambda pool: next(pool.imap(decode, range(6)))),
    "result": lambda: with_executor(lambda executor: [caught(each.result) for each in as_completed(submit_all(executor))], threads),
    "exception": lambda: with_executor(lambda executor: [each.exception() for each in submit_all(executor)]),
    "done-callback": lambda: with_executor(lambda executor: [each.add_done_callback(failed.append) for each in submit_all(executor)]),
    "asyncio": lambda: asyncio.new_event_loop().run_until_complete(gather()),
    "list-map": lambda: with_executor(lambda executor: caught(lambda: list(executor.map(decode, range(6)))), threads),
    "list-map-of-many": lambda: with_executor(lambda executor: caught(lambda: list(executor.map(decode, [3] * 6))), threads),
}

if __name__ == "__main__":
    JOBS[sys.argv[1]]()
    print("done")
