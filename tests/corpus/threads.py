"""What the threads of a job do, seen from outside: proof that a job hangs before dlprobe looks at it."""
import time

LOOKS = 3
BETWEEN_LOOKS_S = 0.15
SHARE_OF_BUSY = 0.1


class Look:
    """One look at a thread: its state, how often it gave the CPU away, and how long it ran."""

    def __init__(self, tid):
        with open(f"/proc/{tid}/task/{tid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        self.state = fields[0]
        with open(f"/proc/{tid}/task/{tid}/schedstat", encoding="ascii") as file:
            ran_ns, _waited_ns, self.slices = map(int, file.read().split())
        with open(f"/proc/{tid}/task/{tid}/wchan", encoding="ascii") as file:
            self.waits_in = file.read()
        self.ran_s = ran_ns / 1e9
        self.at_s = time.monotonic()


def is_still(looks):
    return all(look.state in "SDTt" for look in looks) and len({look.slices for look in looks}) == 1


def is_at_futex(looks):
    return is_still(looks) and all("futex" in look.waits_in for look in looks)


def is_busy(looks):
    return looks[-1].ran_s - looks[0].ran_s > SHARE_OF_BUSY * (looks[-1].at_s - looks[0].at_s)


def moves(looks):
    return looks[0].slices != looks[-1].slices


def waits(looks):
    """Blocked, or spinning."""
    return is_still(looks) or is_busy(looks)


TESTS = {"still": is_still, "busy": is_busy, "moves": moves, "waits": waits, "at-futex": is_at_futex}


def does(tid, word):
    looks = []
    for number in range(LOOKS):
        time.sleep(BETWEEN_LOOKS_S if number else 0)
        looks.append(Look(tid))
    return TESTS[word](looks)


class Claims:
    """The lines of a job: `threads N`, and N of `still TID` and the like, or `attach PID`."""

    def __init__(self, pid):
        self.target = pid
        self.expected = None
        self.claims = {}
        self.named = 0  # 1: the job said `attach`

    def take(self, line):
        """Whether the job has said everything."""
        word, _, number = line.strip().partition(" ")
        if word == "threads":
            self.expected = int(number)
        elif word == "attach":
            self.target = int(number)
            self.named = 1
        elif word in TESTS:
            self.claims[int(number)] = word
        return self.expected is not None and len(self.claims) + self.named >= self.expected

    def wait(self, limit_s):
        """Until all claims hold at once. Gives those that do not after `limit_s`."""
        end = time.monotonic() + limit_s
        while True:
            try:
                wrong = [f"{word} {tid}" for tid, word in self.claims.items() if not does(tid, word)]
            except OSError as error:
                wrong = [str(error)]
            if not wrong or time.monotonic() > end:
                return wrong
