"""Lidar frames in shared memory: a frame server process writes them, readers map them by name."""
import argparse
import multiprocessing as mp
from multiprocessing import shared_memory


def serve(frames, size, requests, replies, keep):
    alive = []
    for number in range(frames):
        requests.get()
        frame = shared_memory.SharedMemory(create=True, size=size)
        frame.buf[:size] = bytes([number % 251]) * size
        replies.put((number, frame.name))
        alive.append(frame)
        if len(alive) > keep:
            done = alive.pop(0)
            done.close()
            done.unlink()
    requests.get()
    for frame in alive:
        frame.close()
        frame.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--mib", type=int, default=1)
    parser.add_argument("--keep", type=int, default=200, help="frames that stay mapped, for late readers")
    args = parser.parse_args()
    context = mp.get_context("fork")
    requests, replies = context.Queue(), context.Queue()
    server = context.Process(target=serve, args=(args.frames, args.mib << 20, requests, replies, args.keep))
    server.start()
    checksum = 0
    for _ in range(args.frames):
        requests.put("next")
        number, name = replies.get()
        frame = shared_memory.SharedMemory(name=name)
        checksum += frame.buf[number]
        frame.close()
    requests.put("end")
    server.join()
    print("checksum", checksum)


if __name__ == "__main__":
    main()
