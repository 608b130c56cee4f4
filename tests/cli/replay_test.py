"""A recording replays to the same bytes; a cut-off one to what it still holds; a foreign one is refused."""

import json
import os
import signal
import subprocess
import tempfile
import unittest

from support import DLPROBE, NEEDS_UNSHARE, TIMEOUT, can_unshare, dlprobe, python_program

HOLD_SHM = ("import time\n"
            "with open('/dev/shm/dlprobe-test-segment', 'xb') as file: file.write(bytes(1 << 20))\n"
            "import os; time.sleep(1.0); os.unlink('/dev/shm/dlprobe-test-segment')\n")


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "incident.dlrec")

    def record(self, *arguments):
        return dlprobe("shm", *arguments, "--record", self.path, "--", *python_program(HOLD_SHM))

    def test_the_same_bytes(self):
        live = self.record("--json")
        again = dlprobe("replay", "--json", self.path)
        self.assertEqual(live.stdout, again.stdout)
        self.assertEqual(live.returncode, again.returncode)
        self.assertEqual(dlprobe("replay", self.path).stdout, dlprobe("replay", self.path).stdout)

    def test_readable_after_kill_9(self):
        with subprocess.Popen([DLPROBE, "shm", "--record", self.path, "--", "sleep", "60"],
                              stdout=subprocess.DEVNULL) as process:
            commands = []
            while not commands or os.path.getsize(self.path) < 4000:
                self.assertIsNone(process.poll())
                with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                    commands = file.read().split()
            command = int(commands[0])
            process.send_signal(signal.SIGKILL)
            process.wait(TIMEOUT)
        os.kill(command, 0)  # the command goes on without dlprobe
        os.kill(command, signal.SIGKILL)
        report = json.loads(dlprobe("replay", "--json", self.path).stdout)
        self.assertIn("the recording has no end", json.dumps(report["limitations"]))

    # A full disk ends the recording, not the job; the report and the exit code say so. The job goes on when dlprobe, its
    # parent, has let go of the recording: how long it takes to fill the disk depends on the machine.
    def check_full_disk(self, setup, program="echo the job goes on"):
        folder = os.path.dirname(self.path)
        report = os.path.join(folder, "report.json")
        os.mkdir(os.path.join(folder, "disk"))
        recording = os.path.join(folder, "disk", "r.dlrec")
        program = "while ls -l /proc/$PPID/fd 2>/dev/null | grep -q r.dlrec; do sleep 0.1; done; " + program
        script = setup.format(disk=os.path.join(folder, "disk")) + ' && "$@"; code=$?; ' \
            f"cp {recording} {self.path}; exit $code"
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", DLPROBE, "shm", "-q", "-f", f"json={report}", "--interval", "10ms",
             "--record", recording, "--", "sh", "-c", program], capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(f"dlprobe: the recording ended early: write {recording}: ".encode()))
        self.assertIn(b"the job goes on\n", done.stdout)
        with open(report, encoding="utf-8") as file:
            limitations = json.dumps(json.load(file)["limitations"])
        self.assertIn(f"the recording {recording} ended early", limitations)
        return limitations

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_disk_that_fills(self):
        self.assertIn("No space left", self.check_full_disk("mount -t tmpfs -o size=48k tmpfs {disk}"))
        again = dlprobe("replay", "--json", self.path)
        self.assertEqual(again.returncode, 3)
        self.assertIn("the recording has no end", again.stdout.decode())

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_disk_that_is_full_already(self):
        self.check_full_disk("mount -t tmpfs -o size=4k tmpfs {disk} && head -c 4096 /dev/zero > {disk}/filler")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_limit_of_file_sizes(self):
        limitations = self.check_full_disk("ulimit -f 256", "grep SigIgn /proc/self/status; echo the job goes on")
        self.assertIn("File too large", limitations)

    def test_a_recording_that_is_cut_is_no_pass(self):
        with subprocess.Popen(["sleep", "60"]) as job:
            for command in (["attach", "--for", "0s"], ["top", "--once"]):
                done = subprocess.run(["sh", "-c", 'ulimit -f 1 && exec "$@"', "sh", DLPROBE, *command, str(job.pid), "--record",
                                       self.path], capture_output=True, timeout=TIMEOUT, check=False)
                self.assertEqual(done.returncode, 3, done.stdout)
                self.assertIn(b"the recording ended early", done.stderr)
            job.kill()

    def test_every_truncation_is_read_or_refused_in_one_line(self):
        self.record("-q")
        with open(self.path, "rb") as file:
            whole = file.read()
        for length in range(0, len(whole), max(1, len(whole) // 40)):
            with open(self.path, "wb") as file:
                file.write(whole[:length])
            done = dlprobe("replay", "-q", self.path)
            self.assertIn(done.returncode, (0, 2, 3), length)
            self.assertLessEqual(done.stderr.count(b"\n"), 1)

    def test_a_future_version_is_named(self):
        self.record("-q")
        with open(self.path, "r+b") as file:
            magic = file.read(64)
            # The major version is the first byte behind the magic text.
            place = next(i for i, byte in enumerate(magic) if byte == 1)
            file.seek(place)
            file.write(b"\x09")
        done = dlprobe("replay", self.path)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"9", done.stderr)
        self.assertIn(b"version", done.stderr)


if __name__ == "__main__":
    unittest.main()
