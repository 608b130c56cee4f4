"""Spectrogram server, offline mode: cuts long recordings and writes mel-like features. One queue for all stages."""
import argparse
import cmath
import math
import multiprocessing as mp

# Stage statistics, filled by all processes.
counters = {name: mp.Value("i", 0) for name in ("cut", "windowed")} if __name__ == "__main__" else {}


def tone(seconds, hertz=440, rate=4000):
    return [math.sin(2 * math.pi * hertz * n / rate) for n in range(int(seconds * rate))]


def dft(window):
    size = len(window)
    return [abs(sum(value * cmath.exp(-2j * cmath.pi * k * n / size) for n, value in enumerate(window))) for k in range(size // 2)]


def worker(jobs, results, windowed):
    for samples in iter(jobs.get, None):
        results.put(dft(samples))
        with windowed.get_lock():
            windowed.value += 1


def run(options):
    jobs, results = mp.Queue(), mp.Queue()
    processes = [mp.Process(target=worker, args=(jobs, results, counters["windowed"])) for _ in range(options.processes)]
    for process in processes:
        process.start()
    signal = tone(options.seconds)
    windows = [signal[start:start + 64] for start in range(0, len(signal) - 64, 64)]
    for window in windows:
        jobs.put(window)
        counters["cut"].value += 1
    features = [results.get() for _ in windows]
    for _ in processes:
        jobs.put(None)
    for process in processes:
        process.join()
    print(len(features), "windows, loudest bin", max(range(32), key=features[0].__getitem__))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start-method", default="spawn", help="fork breaks our decoder on the cluster")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep-default", action="store_true")
    options = parser.parse_args()
    if not options.keep_default:
        mp.set_start_method(options.start_method)
    run(options)


if __name__ == "__main__":
    main()
