"""Read from standard input or given by -c: a worker has no file to import it from."""
import multiprocessing


def work():
    pass


if __name__ == "__main__":
    process = multiprocessing.Process(target=work)
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
