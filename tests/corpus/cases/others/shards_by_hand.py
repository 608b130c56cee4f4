"""Three ranks, each a subclass of Process, that read a shard of their own and then meet.

usage: shards_by_hand.py [--lost-shard | --late-shard]: rank 1 has no file | comes 8 s after the others
"""
import multiprocessing
import socket
import sys
import tempfile
import time

RANKS = 3


class Rank(multiprocessing.Process):
    def __init__(self, rank, port, folder):
        super().__init__()
        self.rank, self.port, self.folder = rank, port, folder

    def read(self):
        if self.rank == 1 and "--late-shard" in sys.argv:
            time.sleep(8)
        with open(f"{self.folder}/{self.rank}.txt", encoding="ascii") as file:
            return float(file.read())

    def run(self):
        import torch
        import torch.distributed as dist
        total = torch.tensor([self.read()])
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{self.port}", rank=self.rank, world_size=RANKS)
        for _ in range(20):
            dist.all_reduce(total)
            total /= RANKS
        dist.barrier()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    with socket.create_server(("127.0.0.1", 0)) as free:
        chosen = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as shards:
        for number in range(RANKS):
            if number == 1 and "--lost-shard" in sys.argv:
                continue
            with open(f"{shards}/{number}.txt", "w", encoding="ascii") as written:
                written.write("1.5")
        ranks = [Rank(number, chosen, shards) for number in range(RANKS)]
        for each in ranks:
            each.start()
        for each in ranks:
            each.join()
