"""A Process of its own kind, which is started where it is made, and that at import."""
import multiprocessing


class Reader(multiprocessing.Process):
    def __init__(self):
        super().__init__()
        self.start()

    def run(self):
        pass


Reader().join()
