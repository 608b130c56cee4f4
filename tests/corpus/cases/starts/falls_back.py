"""Knows what to do where a worker cannot be had."""
import multiprocessing

if __name__ == "__main__":
    try:
        multiprocessing.Process(target=lambda: None).start()
    except Exception:  # what pickle raises differs from version to version
        print("without a worker, then")
