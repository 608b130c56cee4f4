"""The HTML report in a real browser: nothing is fetched, nothing complains, everybody can use it."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import rank_reports
from browser import CHROMIUM, NEEDS_CHROMIUM, Browser
from support import dlprobe, python_program

MAKE_INCIDENT = os.environ.get("DLPROBE_MAKE_INCIDENT")
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "recordings"
# One of each kind: a browser takes its time for each.
PAGES = ("attach-python-lock-at-fork", "bus-error", "bus-error-of-a-data-file", "circle-of-locks",
         "descriptor-limit-too-low", "gate-few-descriptors", "healthy", "healthy-gate", "held-by-another-job", "killed-workers",
         "leak-in-native-code", "lost-batch", "openmp-pool-at-fork", "pool-in-pool", "refused-segment",
         "run-torch-hangs", "worker-crashed")

# Two processes wait for a lock that was copied locked by fork. Its children end with it.
HANG = """
import os, threading, time
lock = threading.Lock()
threading.Thread(target=lambda: (lock.acquire(), time.sleep(1), lock.release()), daemon=True).start()
time.sleep(.2)
import multiprocessing as mp, ctypes, signal
def work():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    lock.acquire()
context = mp.get_context("fork")
workers = [context.Process(target=work) for _ in range(3)]
for worker in workers: worker.start()
time.sleep(1)
print("ready", flush=True)
for worker in workers: worker.join()
"""

# Two threads take two locks, each in its own order.
CIRCLE = """
import threading, time
first, second = threading.Lock(), threading.Lock()
both_hold = threading.Barrier(2)
def other():
    with second:
        both_hold.wait()
        first.acquire()
threading.Thread(target=other, daemon=True).start()
with first:
    both_hold.wait()
    print("ready", flush=True)
    second.acquire()
"""

WIDTHS = (375, 600, 900, 1250, 2200, 3840)  # of each layout

# What cannot be read at this width: hidden by its box, beyond the page, or to be scrolled to without a hint or a key.
CUT = """(() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  window.dispatchEvent(new Event("resize"));
  const found = [];
  for (const each of document.querySelectorAll("body, body *:not(.skip)")) {
    const box = each.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const style = getComputedStyle(each);
    const name = each.tagName + " " + (each.getAttribute("class") || "") + ": " + each.textContent.trim().slice(0, 40);
    const is_wide = each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1 && style.overflowX !== "visible";
    const says_so = each.tabIndex === 0 && !["none", "normal"].includes(getComputedStyle(each, "::before").content);
    if (is_wide && (!["auto", "scroll"].includes(style.overflowX) || !says_so)) found.push("cut: " + name);
    const is_beyond = box.right > document.documentElement.clientWidth + 1 || box.left < -1;
    if (is_beyond && !each.parentElement.closest(".scroll[tabindex]")) found.push("beyond the page: " + name);
  }
  return found;
})()"""

# Arrows behind boxes or on words, and words on words, in the drawing of who waits for whom.
TANGLED = """(() => {
  const found = [];
  const graph = document.querySelector(".graph");
  const boxes = Array.from(graph.querySelectorAll("rect, .relation"), (each) => each.getBBox());
  for (const path of graph.querySelectorAll("path[class^=edge]"))
    for (let part = 0.02; part < 0.97; part += 0.01) {
      const at = path.getPointAtLength(path.getTotalLength() * part);
      const is_in = (box) => at.x > box.x + 1 && at.x < box.x + box.width - 1 && at.y > box.y + 1 && at.y < box.y + box.height - 1;
      if (boxes.some(is_in)) { found.push(path.getAttribute("d")); break; }
    }
  const words = Array.from(graph.querySelectorAll("text"), (each) => [each.textContent, each.getBBox()]);
  words.forEach(([text, a], i) => words.slice(i + 1).forEach(([other, b]) => {
    if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height - 2 && b.y < a.y + a.height - 2)
      found.push(text + " on " + other);
  }));
  return found;
})()"""

# The contrast of every text with what is behind it (WCAG 2.1, 1.4.3), the worst first.
CONTRAST = """(() => {
  const parse = (text) => (text.match(/[0-9.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = (rgb) => {
    const part = rgb.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color.length < 4 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || parent.closest("script, style, title")) continue;
    const style = getComputedStyle(parent);
    const color = parent.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(parse(color)), light(behind(parent.closest("svg") ? parent.closest("svg").parentElement : parent))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), walker.currentNode.textContent.trim().slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0]).slice(0, 3);
})()"""

# What axe-core's rules of these names look for, as far as this page can break them.
FAULTS = """(() => {
  const faults = [];
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  if (!document.documentElement.lang) faults.push("html-has-lang");
  if (!document.title) faults.push("document-title");
  if (all("main").length !== 1) faults.push("landmark-one-main");
  if (all("h1").length !== 1) faults.push("page-has-heading-one");
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const now = Number(heading.tagName[1]);
    if (now > level + 1) faults.push("heading-order: " + heading.textContent);
    if (!heading.textContent.trim()) faults.push("empty-heading");
    level = now;
  }
  const ids = all("[id]").map((each) => each.id);
  if (new Set(ids).size !== ids.length) faults.push("duplicate-id");
  for (const link of all("a[href^='#']"))
    if (!document.getElementById(link.hash.slice(1))) faults.push("skip-link: " + link.hash);
  for (const head of all("th")) if (!head.scope) faults.push("scope-attr-valid: " + head.textContent);
  for (const image of all("[role=img]")) if (!image.getAttribute("aria-label")) faults.push("role-img-alt");
  for (const each of all("[aria-labelledby]"))
    if (!document.getElementById(each.getAttribute("aria-labelledby"))) faults.push("aria-valid-attr-value");
  for (const each of all("nav")) if (!each.getAttribute("aria-label")) faults.push("landmark-unique");
  for (const each of all("[tabindex]")) if (Number(each.getAttribute("tabindex")) > 0) faults.push("tabindex");
  for (const each of all("ul, ol"))
    for (const child of each.children) if (child.tagName !== "LI") faults.push("list: " + child.tagName);
  return faults;
})()"""


def poisoned(report, attack):
    """The report with that in the place of every text, but for those that a reader asks for: ids, and listed values."""
    schema = json.loads(dlprobe("schema").stdout)
    kept = ("schema_version", "columns", "units", "id", "from", "to", "chain")

    def poison(value, rule):
        while "$ref" in rule:
            rule = schema["$defs"][rule["$ref"].rsplit("/", 1)[1]]
        if "enum" in rule or "const" in rule:
            return value
        if isinstance(value, dict):
            known, others = rule.get("properties", {}), rule.get("additionalProperties")
            others = others if isinstance(others, dict) else {}
            return {key: each if key in kept else poison(each, known.get(key, others)) for key, each in value.items()}
        if isinstance(value, list):
            items = rule.get("items")
            return [poison(each, items if isinstance(items, dict) else {}) for each in value]
        return attack if isinstance(value, str) else value

    is_merged = report["kind"] == "dlprobe.cluster-report"
    return poison(report, schema["$defs"]["cluster"] if is_merged else schema)


@unittest.skipUnless(CHROMIUM, NEEDS_CHROMIUM)
class Html(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.pages = {}
        for path in (FIXTURES / f"{name}.dlrec" for name in PAGES):
            page = Path(cls.folder.name) / f"{path.stem}.html"
            dlprobe("replay", path, "-q", "-f", f"html={page}", "-f", f"json={page}.json")
            cls.pages[path.stem] = page
        cls.pages["hang"] = cls.page_of(HANG, "hang")
        cls.pages["circle"] = cls.page_of(CIRCLE, "circle")
        cls.pages["ranks"] = cls.page_of_ranks(2)
        cls.pages["many-ranks"] = cls.page_of_ranks(256)
        cls.pages["hostile"] = cls.hostile_page()
        cls.pages["hostile-ranks"] = cls.hostile_page("ranks")
        cls.pages["hostile-hang"] = cls.hostile_page("hang")
        if MAKE_INCIDENT:
            cls.pages["incident"] = cls.page_of_a_large_incident()
        cls.browser = cls.enterClassContext(Browser())

    @classmethod
    def page_of_a_large_incident(cls):
        """Two minutes of 64 processes: more samples than a page has points."""
        recording, page = Path(cls.folder.name) / "incident.dlrec", Path(cls.folder.name) / "incident.html"
        subprocess.run([MAKE_INCIDENT, recording, "63", "2"], check=True)
        dlprobe("replay", recording, "-q", "-f", f"html={page}", "-f", f"json={page}.json")
        return page

    @classmethod
    def page_of(cls, program, name):
        """One that hangs, looked at from outside: a graph, and stacks."""
        page = Path(cls.folder.name) / f"{name}.html"
        with subprocess.Popen(python_program(program), stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            dlprobe("attach", process.pid, "--for", "3s", "-q", "-f", f"html={page}", "-f", f"json={page}.json")
            process.kill()
        return page

    @classmethod
    def page_of_ranks(cls, nodes):
        """A job of 4 ranks on each node that waits for rank 5, and of which rank 7 is not there."""
        folder = Path(cls.folder.name) / f"nodes-{nodes}"
        folder.mkdir()
        report = json.loads((Path(cls.folder.name) / "healthy.html.json").read_text())
        for number in range(1, nodes + 1):
            changes = {5: rank_reports.SLEEPS, 7: None}
            (folder / f"{number}.json").write_text(json.dumps(rank_reports.node_report(report, number, nodes, changes)))
        name = "ranks" if nodes == 2 else "many-ranks"
        page = Path(cls.folder.name) / f"{name}.html"
        dlprobe("report", "merge", folder, "-q", "-f", f"html={page}", "-f", f"json={page}.json")
        return page

    @classmethod
    def hostile_page(cls, of="lost-batch"):
        """Every text of a real report is an attack."""
        attack = "</script></title><img src=x onerror='hacked=1'>\"><script>hacked=1</script>\u202e\x1b[31m<b>"
        source = json.loads((Path(cls.folder.name) / f"{of}.html.json").read_text())
        saved = Path(cls.folder.name) / f"hostile-{of}.json"
        saved.write_text(json.dumps(poisoned(source, attack)))
        page = Path(cls.folder.name) / f"hostile-{of}.html"
        dlprobe("report", "render", saved, "-q", "-f", f"html={page}")
        return page

    def each_page(self):
        for name, path in self.pages.items():
            with self.subTest(name):
                self.browser.complaints.clear()
                self.browser.requests.clear()
                self.browser.size(1280, 900)
                self.browser.open(path)
                yield name, path
                self.assertEqual(self.browser.complaints, [])

    def test_nothing_is_fetched_and_nothing_complains(self):
        for _name, path in self.each_page():
            self.assertEqual(self.browser.requests, [f"file://{path}"])

    def test_hostile_text_does_nothing(self):
        for _name, _path in self.each_page():
            self.assertEqual(self.browser.value("typeof hacked + document.images.length"), "undefined0")

    def test_the_keyboard_reads_one_moment_in_every_chart(self):
        for name, _path in self.each_page():
            charts = self.browser.value("document.querySelectorAll('figure').length")
            if name in ("bus-error", "lost-batch"):
                self.assertGreater(charts, 0)
            if charts == 0:
                continue
            self.browser.value("document.querySelector('.chart').focus()")
            self.browser.press("Home")
            first = self.browser.value("Array.from(document.querySelectorAll('output')).map(o => o.textContent)")
            self.browser.press("End")
            last = self.browser.value("Array.from(document.querySelectorAll('output')).map(o => o.textContent)")
            self.assertEqual(len({text.split(" s: ")[0] for text in last}), 1, last)
            self.assertTrue(all(" s: " in text for text in first + last), first)
            self.assertNotEqual(first, last)
            self.assertEqual(self.browser.value("document.querySelectorAll('.cursor[visibility]').length"), 0)

    def test_contrast_in_light_and_dark(self):
        for _name, _path in self.each_page():
            for scheme in ("light", "dark"):
                self.browser.size(1280, 900, scheme)
                worst = self.browser.value(CONTRAST)
                self.assertGreaterEqual(worst[0][0], 4.5, (scheme, worst))

    def test_who_does_not_see_it_can_use_it(self):
        for _name, _path in self.each_page():
            self.assertEqual(self.browser.value(FAULTS), [])

    def test_nothing_is_cut_at_any_width(self):
        for _name, _path in self.each_page():
            for width in WIDTHS:
                self.browser.size(width, 900)
                self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                self.assertEqual(self.browser.value(CUT), [], width)

    def test_the_drawing_of_a_hang_can_be_followed(self):
        for name in ("hang", "circle", "circle-of-locks"):
            with self.subTest(name):
                self.browser.open(self.pages[name])
                self.assertEqual(self.browser.value(TANGLED), [])

    def texts(self, selector):
        return self.browser.value(f"Array.from(document.querySelectorAll({json.dumps(selector)}), (e) => e.textContent)")

    def test_alike_workers_are_one_box_and_a_circle_is_not(self):
        self.browser.open(self.pages["openmp-pool-at-fork"])
        self.assertEqual(len(self.texts(".graph .node")), 4)
        self.assertIn("worker 12631 (× 2 alike)", self.texts(".graph .name"))
        self.assertEqual(self.texts(".graph .relation"), ["waits for", "written by", "waits for"])
        self.assertEqual(self.texts(".graph .root"), ["the root cause"])
        self.assertIn("hang_at_fork.py:160 in", self.texts(".graph .place"))
        self.browser.open(self.pages["circle-of-locks"])
        self.assertEqual(len(self.texts(".graph .node")), 8)
        self.assertEqual(self.texts(".graph .root"), [])

    def test_the_root_cause_is_whole_at_every_width(self):
        for width in WIDTHS:
            self.browser.size(width, 900)
            self.browser.open(self.pages["openmp-pool-at-fork"])
            right = self.browser.value("document.querySelector('.graph .root').getBoundingClientRect().right")
            self.assertTrue(0 < right <= width, (width, right))

    def test_the_chart_of_the_cause_comes_first_and_none_is_constant(self):
        first = {"leak-in-native-code": "Memory", "bus-error": "Shared memory in use",
                 "descriptor-limit-too-low": "Open file descriptors"}
        for name, title in first.items():
            with self.subTest(name):
                self.browser.open(self.pages[name])
                self.assertTrue(self.texts("figcaption")[0].startswith(title), self.texts("figcaption"))
                self.assertGreaterEqual(len(self.texts("figure:first-of-type .marks text")), 3)
        self.browser.open(self.pages["leak-in-native-code"])
        # By role, and the worker that has more memory than the other one.
        self.assertEqual(len(self.texts("figure")), 2)
        self.assertEqual(len(self.texts(".trend")), 2)
        caption = self.texts("figcaption")[0]
        self.assertIn("growth: 9.8 MiB/s", caption)
        self.assertIn("not sampled after 17.7 s", " ".join(self.texts("figcaption")))
        self.assertEqual(self.texts(".limit-near, figcaption .fail"), [])
        self.browser.open(self.pages["bus-error"])
        self.assertEqual(len(self.texts("figure:first-of-type .limit-near")), 1)
        self.assertIn("shm-exhausted: first seen at 0.8 s", self.texts("figcaption")[0])
        self.browser.open(self.pages["openmp-pool-at-fork"])
        self.assertEqual(self.texts("figure"), [])

    def test_the_checks_of_a_gate_come_first_those_that_failed_before_all(self):
        for name, results, is_open in (("gate-few-descriptors", ["fail", "fail"], False),
                                       ("healthy-gate", ["skipped", "skipped"], True)):
            with self.subTest(name):
                self.browser.open(self.pages[name])
                self.assertEqual(self.texts("h2")[0], "Checks")
                self.assertEqual(self.texts("section:first-of-type td:first-child")[:2], results)
                self.assertEqual(self.browser.value("document.querySelector('section:first-of-type details').open"), is_open)

    def test_each_command_has_a_button_that_copies_it(self):
        self.browser.open(self.pages["attach-python-lock-at-fork"])
        self.assertEqual(len(self.texts(".command button")), len(self.texts("pre, .card li p code")))
        copied = "document.querySelector('.command button').click(), String(getSelection()).trim()"
        self.assertEqual(self.browser.value(copied), self.texts("pre")[0].strip())
        # A job that runs has its pid; one that dlprobe started has ended.
        self.assertIn("dlprobe deadlock --pid 31417", self.texts(".card li p code"))
        self.browser.open(self.pages["run-torch-hangs"])
        self.assertIn("dlprobe deadlock --pid PID", self.texts(".card li p code"))

    def test_the_graph_and_the_stacks_of_a_hang(self):
        self.browser.open(self.pages["hang"])
        self.assertGreaterEqual(self.browser.value("document.querySelectorAll('.graph .chain').length"), 2)
        self.assertGreaterEqual(self.browser.value("document.querySelectorAll('ol.frames').length"), 2)

    def test_a_few_ranks_have_a_line_each_and_many_a_square(self):
        count = "document.querySelectorAll('{}').length"
        self.browser.open(self.pages["ranks"])
        self.assertEqual(self.browser.value(count.format(".ranks li")), 8)
        self.assertEqual(self.browser.value(count.format(".ranks .worker")), 14)
        self.assertEqual(self.browser.value(count.format(".ranks .t-late")), 1)
        self.assertEqual(self.browser.value(count.format(".ranks .t-absent")), 1)
        self.assertIn("rank 5 (n2, pid 4712)sleeps 40.0 s", self.browser.value("document.querySelector('.ranks').textContent"))
        self.browser.open(self.pages["many-ranks"])
        self.assertEqual(self.browser.value(count.format(".squares i")), 1024)
        self.assertEqual(self.browser.value(count.format(".squares .t-late")), 1)
        self.assertIn("ranks 0-4, 6, 8-1023 wait in all_reduce", self.browser.value("document.body.textContent"))

    @unittest.skipUnless(MAKE_INCIDENT, "needs make_incident, which the build makes")
    def test_a_large_incident_is_small_and_whole(self):
        path = self.pages["incident"]
        report = json.loads(Path(f"{path}.json").read_text())
        self.assertLess(path.stat().st_size, 3_000_000)
        self.assertLess(len(report["timeline"]["rows"]), 601)
        # The highest of all samples is in it, of every column that has spikes.
        run = report["runs"][0]
        columns = report["timeline"]["columns"]
        for column, peak in (("rss_sum", "rss_sum_peak_bytes"), ("pss_sum", "pss_sum_peak_bytes")):
            self.assertEqual(max(row[columns.index(column)] or 0 for row in report["timeline"]["rows"]), run[peak], column)
        self.browser.open(path)
        text = self.browser.value("document.body.textContent")
        self.assertIn("DLP0503", text)
        self.assertGreaterEqual(self.browser.value("document.querySelectorAll('figure').length"), 1)
        self.assertIn("worker 1063", text)
        self.assertGreaterEqual(self.browser.value("document.querySelectorAll('ol.frames').length"), 5)
        # No more upright lines than can be told apart.
        self.assertLess(self.browser.value("document.querySelectorAll('.chart')[0].querySelectorAll('.event').length"), 50)

    def test_it_prints(self):
        for name in ("lost-batch", "hang", "many-ranks", "healthy-gate"):
            with self.subTest(name):
                self.browser.open(self.pages[name])
                self.assertTrue(self.browser.pdf().startswith(b"%PDF"))


if __name__ == "__main__":
    unittest.main()
