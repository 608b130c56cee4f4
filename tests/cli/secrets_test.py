"""No report, recording or page shows a secret: 1,000 shapes, in the channels that a process has, in all formats."""

import base64
import hashlib
import os
import random
import shlex
import subprocess
import sys
import tempfile
import unittest
import uuid

from support import DLPROBE, TIMEOUT, dlprobe

FORMATS = ("json", "jsonl", "html", "markdown", "junit", "sarif", "github", "gitlab", "prometheus", "nagios", "npd", "dot")
OPTIONS = """--password --passwd --db-password --api-key --apikey --api_key --token --hf-token --auth-token --access-token
    --secret --client-secret --aws-secret-access-key --secret-key --private-key --credential --credentials --cred --creds
    --auth --bearer --cookie --session-token --session-key --passphrase --passcode --pass --pwd --pw -pw --pin --otp --totp
    --card --cvv --signature --sig --sas --oauth --api-tokens --kennwort --passwort --contrasena --contraseña
    --mot-de-passe --motdepasse --senha --parol --пароль --密码 --パスワード --비밀번호 --पासवर्ड --wachtwoord --haslo --sifre
    --userPassword --accessToken --apiKey --dbpass --hftoken --secretKey""".split()
VARIABLES = """WANDB_API_KEY HF_TOKEN AWS_SECRET_ACCESS_KEY MYSQL_PWD PGPASSWORD GITHUB_TOKEN OPENAI_API_KEY DB_PASS
    SLACK_TOKEN AZURE_STORAGE_KEY NEPTUNE_API_TOKEN COMET_API_KEY""".split()
CLIENTS = ("mysql -p{}", "mysqldump -u bob -p{} db", "sshpass -p {} ssh host", "redis-cli -a {} ping",
           "mongo -u bob -p {}", "curl -u bob:{} https://host/", "docker login -u bob -p {}", "7z x -p{} a.7z",
           "curl https://bob:{}@host/x", "curl -H 'Authorization: Bearer {}' https://host/", "psql postgres://u:{}@db/x")
# Dealt by chance, but the same each time.
CHANCE = random.Random(17)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def letters(count, of=LETTERS):
    return "".join(CHANCE.choice(of) for _ in range(count))


def tokens(count):
    """Secrets that their own shape tells."""
    makers = (lambda: "AKIA" + letters(16, LETTERS[26:]), lambda: "ASIA" + letters(16, LETTERS[26:]),
              lambda: "hf_" + letters(34), lambda: "ghp_" + letters(36), lambda: "ghs_" + letters(36),
              lambda: "github_pat_" + letters(22) + "_" + letters(59), lambda: "glpat-" + letters(20),
              lambda: "xoxb-" + letters(12, "0123456789") + "-" + letters(24), lambda: "sk-" + letters(48),
              lambda: "AIza" + letters(35), lambda: "wandb_v1_" + letters(40),
              lambda: "eyJ" + letters(30) + "." + letters(60))
    return [CHANCE.choice(makers)() for _ in range(count)]


def keys(count):
    """Bare keys, in hexadecimal digits or of any kind."""
    makers = (lambda: letters(40, "0123456789abcdef"), lambda: letters(32, "0123456789abcdef"),
              lambda: letters(64, "0123456789ABCDEF"), lambda: str(uuid.UUID(int=CHANCE.getrandbits(128), version=4)),
              lambda: base64.b64encode(hashlib.sha512(letters(9).encode()).digest()).decode().rstrip("=").replace("/", "_"))
    return [CHANCE.choice(makers)() for _ in range(count)]


def named(count):
    """What only the name beside it tells: (argument words, secret)."""
    found = []
    for _ in range(count):
        secret = letters(5) + CHANCE.choice("!#%7") + letters(4)
        option = CHANCE.choice(OPTIONS)
        form = CHANCE.randrange(6)
        if form == 0:
            words = [option, secret]
        elif form == 1:
            words = [f"{option}={secret}"]
        elif form == 2:
            words = [f"{CHANCE.choice(VARIABLES)}={secret}"]
        elif form == 3:
            words = ['{"user": "bob", "' + option.lstrip("-") + f'": "{secret}"' + "}"]
        elif form == 4:
            words = [f"https://host/x?n=1&{CHANCE.choice(('token', 'sig', 'api_key', 'access_token'))}={secret}"]
        else:
            words = shlex.split(CHANCE.choice(CLIENTS).format(secret))
        found.append((words, secret))
    return found


class Secrets(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def assert_nowhere(self, words, secrets, environment=None, files=()):
        """A process with these arguments, variables and open files; none of the secrets is in any output."""
        program = ("import os, sys, time\n"
                   "held = [open(name, 'w') for name in os.environ.get('TO_OPEN', '').split('\\n') if name]\n"
                   "print('r', flush=True)\nsys.stdin.read()")
        out = os.path.join(self.folder.name, "out")
        os.makedirs(out, exist_ok=True)
        process = subprocess.Popen([sys.executable, "-c", program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, **(environment or {}), "TO_OPEN": "\n".join(files)})
        try:
            process.stdout.readline()
            formats = [part for kind in FORMATS for part in ("-f", f"{kind}={out}/report.{kind}")]
            done = dlprobe("attach", "--for", "0s", "-v", *formats, "--record", f"{out}/recording", process.pid)
            self.assertIn(done.returncode, (0, 3), done.stderr)
            again = dlprobe("report", "redact", f"{out}/report.json", "-o", f"{out}/redacted.json")
            self.assertEqual(again.returncode, 0, again.stderr)
            stacks = dlprobe("stacks", process.pid)
        finally:
            process.communicate()
        texts = {"standard output": done.stdout + done.stderr, "stacks": stacks.stdout}
        for name in os.listdir(out):
            with open(os.path.join(out, name), "rb") as file:
                texts[name] = file.read()
        self.assertEqual(len(texts), len(FORMATS) + 4)
        shown = [(where, secret) for where, text in texts.items() for secret in secrets if secret.encode() in text]
        self.assertEqual(shown, [])

    def test_arguments(self):
        pairs = named(400)
        self.assert_nowhere([word for words, _ in pairs for word in [*words, "--lr"]], [secret for _, secret in pairs])
        bare = tokens(150) + keys(150)
        self.assert_nowhere([CHANCE.choice(("{}", "--id={}", "x,{}", "/run/{}/log")).format(secret) for secret in bare], bare)

    def test_lines_within_an_argument(self):
        pairs = named(200)
        lines = [CHANCE.choice(("import os; os.system({!r})", "{}", "bash -c {!r}", "run({!r}, shell=True)"))
                 .format(shlex.join(words) if len(words) > 1 or " " not in words[0] else words[0]) for words, _ in pairs]
        self.assert_nowhere(lines, [secret for _, secret in pairs])

    def test_variables(self):
        secrets = keys(50) + tokens(50)
        self.assert_nowhere([], secrets, {f"{CHANCE.choice(VARIABLES)}_{at}": each for at, each in enumerate(secrets)})

    def test_names_of_files(self):
        secrets = tokens(100)
        files = [os.path.join(CHANCE.choice(("/dev/shm", self.folder.name)), CHANCE.choice(("", "cache_", "x-")) + each)
                 for each in secrets]
        try:
            self.assert_nowhere([], secrets, files=files)
        finally:
            for name in files:
                os.unlink(name)


if __name__ == "__main__":
    assert DLPROBE and TIMEOUT
    unittest.main()
