"""dlprobe on a terminal that nobody looks at."""

import os
import pty
import threading
import time


class Terminal:
    def __init__(self, ground, mode):
        self.ground, self.mode = ground, mode

    def kill(self, after_s):
        main, terminal = pty.openpty()
        call = self.ground.start(self.mode, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                 env={**self.ground.environment, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"})
        os.close(terminal)
        reader = threading.Thread(target=self.drain, args=(main,), daemon=True)
        reader.start()
        time.sleep(after_s)
        ended = call.process.poll() is not None
        call.process.kill()
        call.process.wait()
        reader.join()
        os.close(main)
        return "had ended" if ended else "killed", call.wrong_end() if ended else []

    @staticmethod
    def drain(main):
        try:
            while os.read(main, 65536):
                pass
        except OSError:  # the other end is closed
            pass
