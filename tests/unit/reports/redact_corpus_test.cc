#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/redact/redact.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kCorpusHome = "/home";
const std::string kRootHome = "/root";
const std::set<std::string> kCorpusAll = {"hosts", "users", "paths", "addresses"};

Json report_of(const std::string& text, const std::vector<std::string>& command) {
  Json report = make_report(testing::exhausted_case());
  report["host"]["name"] = "gpu-7";
  report["summary"]["headline"] = text;
  report["subject"]["command"] = command;
  // As a sentence says it of a piece that is somebody else's.
  report["names"].push_back({{"kind", "text"}, {"text", text}});
  report["findings"][0]["evidence"][0]["value"] = text;
  report["limitations"][0]["why"] = text;
  report["timeline"]["events"].push_back(
      {{"run", 0}, {"t_s", 0.5}, {"kind", "stderr"}, {"text", text}});
  return report;
}

Json hide(Redactor& redactor, const Json& report) {
  return json_of(redactor.redact(typed(report)));
}

/// What a text and a command line become.
struct Hidden {
  std::string text;
  std::vector<std::string> command;
  std::string everywhere;  ///< the texts of all fields that had it
};

Hidden hidden_report(const Json& report) {
  Redactor redactor(kCorpusAll);
  redactor.keeps_names();
  const Json once = hide(redactor, report);
  // Whoever redacts once more gets the same.
  Redactor second(kCorpusAll);
  second.keeps_names();
  const Json twice = hide(second, once);
  EXPECT_TRUE(twice == once) << twice["summary"]["headline"] << twice["subject"]["command"]
                             << " not " << once["summary"]["headline"]
                             << once["subject"]["command"];
  EXPECT_TRUE(parse_report(text_of_json(once)));
  const Json& events = once["timeline"]["events"];
  return {.text = once["summary"]["headline"].get<std::string>(),
          .command = once["subject"]["command"].get<std::vector<std::string>>(),
          .everywhere = once["summary"].dump() + once.value("names", Json()).dump() +
                        once["findings"][0]["evidence"][0]["value"].dump() +
                        once["limitations"][0]["why"].dump() + events.back()["text"].dump()};
}

Hidden hidden(const std::string& text, const std::vector<std::string>& command = {}) {
  return hidden_report(report_of(text, command));
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t blank = std::min(rest.find(' '), rest.size());
    if (blank > 0) words.emplace_back(rest.substr(0, blank));
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words)
    result += (result.empty() ? "" : " ") + word;
  return result;
}

struct Hostile {
  std::string text;
  std::vector<std::string> must_go;
};

const std::vector<Hostile>& hostile_texts() {
  static const std::vector<Hostile> texts = {
      // people
      {"train --user alice --lr 0.1", {"alice"}},
      {"train --username=alice", {"alice"}},
      {"train --user=\"alice\" --epochs 3", {"alice"}},
      {"ssh -l alice gpu-7", {"alice", "gpu-7"}},
      {"psql -U alice -h db-east -d x", {"alice", "db-east"}},
      {"USER=alice LOGNAME=alice python3 x.py", {"alice"}},
      {"job owner=alice.smith", {"alice", "smith"}},
      {"mail alice@corp.example.com now", {"alice", "corp", "example.com"}},
      {"Alice.Smith+ml@corp.example.co.uk", {"Alice", "Smith", "corp", "co.uk"}},
      {"cannot open ~bob/q", {"bob", "/q"}},
      {"ls ~bob", {"bob"}},
      {kCorpusHome + "/carol/x.png", {"carol"}},
      {"/nfs" + kCorpusHome + "/carol/run7", {"carol", "run7"}},
      {"/lustre/users/carol/acme", {"carol", "acme"}},
      {"login: alice", {"alice"}},
      {"--wandb-project acme --entity acme-labs", {"acme"}},
      // paths
      {"python3 data/acme/train.py", {"acme"}},
      {"python3 ./acme/loader.py", {"acme"}},
      {"open ../acme/x failed", {"acme"}},
      {"cannot read acme/scans", {"acme", "scans"}},
      {"python3 loader_of_acme.py --epochs 1", {"loader_of", "acme"}},
      {"at loader_of_acme.py:12 in f", {"acme"}},
      {"file:///srv/acme/x.tar.gz", {"acme", "x.tar"}},
      {"file:///C:/Users/Alice/x", {"Alice"}},
      {"'/srv/Acme Corp/the data.csv'", {"Acme", "Corp", "the data"}},
      {"PATH=/acme/bin:/srv/acme2/bin", {"acme"}},
      {"docker run -v /acme:/beta:ro img", {"acme", "beta"}},
      {"/srv/customer=acme/day=7/x.parquet", {"acme"}},
      {"/données/été/x.png", {"donn", "été"}},
      {"C:\\Users\\Alice\\x", {"Alice", "\\x"}},
      {"C:/Users/Alice/x", {"Alice"}},
      {"'D:\\Acme Corp\\x.csv'", {"Acme", "Corp"}},
      {"\\\\filer7\\acme\\x", {"filer7", "acme"}},
      {"data\\acme\\x.csv", {"acme"}},
      {"/usr/local/acme/bin/tool", {"acme", "tool"}},
      {"/dev/shm/acme_cache", {"acme"}},
      {"/sys/fs/cgroup/acme.slice/job-acme/memory.max", {"acme"}},
      {"/proc/77/root/srv/acme/x", {"acme"}},
      {"/run/user/1000/acme.sock", {"acme"}},
      {"/opt/venv/lib/python3.11/site-packages/acme_vision/io.py", {"acme"}},
      {"/data/x.alice", {"alice"}},
      {"python3 -m acme.train --lr 1", {"acme"}},
      {"$SCRATCH/acme/x", {"acme"}},
      {"libacme_decoder.so.2 in worker 7", {"acme"}},
      // object stores
      {"s3://acme-bucket/k/x.tar", {"acme", "/k"}},
      {"gs://acme-models/resnet", {"acme", "resnet"}},
      {"hdfs://namenode7/acme/p", {"namenode7", "acme"}},
      {"abfss://box@acme.dfs.core.windows.net/x", {"acme", "box"}},
      {"arn:aws:iam::123456789012:user/alice", {"123456789012", "alice"}},
      // hosts
      {"https://ci.corp.example.com/job", {"corp", "/job"}},
      {"https://ci.corp.example.com:8443/job/acme?run=alice#top", {"corp", "acme", "alice"}},
      {"connect to ci.corp.example.com:8443 failed", {"corp"}},
      {"CI.Corp.Example.COM refused", {"Corp", "Example"}},
      {"tcp://node17:29500", {"node17"}},
      {"connect to node17:29500 failed", {"node17"}},
      {"connect to storage-a:2049 failed", {"storage-a"}},
      {"torchrun --master_addr node17 x.py", {"node17"}},
      {"MASTER_ADDR=trainhost torchrun x.py", {"trainhost"}},
      {"--rdzv-endpoint=trainhost:29400", {"trainhost"}},
      {"srun --nodelist=n[1-4],m7 x", {"n[", "n1", "m7"}},
      {"mpirun -H n1:2,n2:2 x", {"n1", "n2"}},
      {"mount nas01:/export/acme at /mnt/acme", {"nas01", "acme"}},
      {"GPU-7 and gpu-7.corp.example.com", {"GPU-7", "gpu-7", "corp"}},
      {"rank 3 of node17 hangs", {"node17"}},
      {"postgresql://alice:pw@db.corp.example.com/acme", {"alice", "pw@", "corp", "acme"}},
      {"mongodb://m1.corp.io:27017,m2.corp.io:27017/x", {"corp"}},
      {"git@git.corp.example.com:acme/vision.git", {"corp", "acme", "vision"}},
      {"registry.corp.example.com/acme/img:v2", {"corp", "acme"}},
      {"github.com/acme/vision", {"acme", "vision"}},
      {"Server=dbhost;User Id=alice;Pwd=x", {"dbhost", "alice"}},
      // addresses
      {"from fe80::1 port 22", {"fe80"}},
      {"https://[2001:db8::7]:443/x", {"2001", "db8"}},
      {"bind [2001:db8::7]:443", {"2001", "db8"}},
      {"addr:fd00::1:2%eth0", {"fd00", "eth0"}},
      {"2001:0db8:0:0:0:0:0:7", {"0db8"}},
      {"::ffff:10.1.2.3", {"10.1.2.3"}},
      {"00:1a:2b:3c:4d:5e and 00-1A-2B-3C-4D-5F", {"1a:2b", "1A-2B"}},
      {"10.1.2.3:29500 10.1.2.0/24 10.1.2.4.", {"10.1.2"}},
      {"addr=10.1.2.3,clientaddr=10.1.2.9", {"10.1.2"}},
      // secrets
      {"mysqlish -p hunter2 -d x", {"hunter2"}},
      {"mysqlish -phunter2", {"hunter2"}},
  };
  return texts;
}

TEST(RedactCorpus, NamesInTexts) {
  for (const auto& [text, must_go] : hostile_texts()) {
    Json of_before = report_of(text, {});
    of_before.erase("names");
    for (const std::string& result :
         {hidden(text).everywhere, hidden_report(of_before).everywhere}) {
      for (const std::string& name : must_go)
        EXPECT_THAT(result, Not(HasSubstr(name))) << text;
    }
  }
}

// What a sentence has pasted in may be shorter than a text: a path, a name, a host, a user.
TEST(RedactCorpus, PiecesOfSentences) {
  for (const char* kind : {"path", "host", "user", "name", "text"}) {
    Json report = report_of("worker 7 of acme_v2 waits", {});
    report["names"].back() = {{"kind", kind}, {"text", "acme_v2"}};
    const Hidden result = hidden_report(report);
    EXPECT_THAT(result.text, Not(HasSubstr("acme"))) << kind;
    EXPECT_THAT(result.text, ::testing::MatchesRegex("worker 7 of [^ ]+ waits")) << kind;
  }
}

TEST(RedactCorpus, SentencesOfAReportThatDoesNotSayWhatIsPastedIn) {
  Json report = report_of("acme waits", {});
  report.erase("names");
  report["findings"][0]["message"] = "worker 7 opens acme_v2";
  Redactor redactor(kCorpusAll);
  const Json result = hide(redactor, report);
  EXPECT_EQ(result["findings"][0]["message"], report["findings"][0]["title"]);
  EXPECT_EQ(result["summary"]["headline"], report["findings"][0]["title"]);
  EXPECT_FALSE(result.contains("names"));
}

// The report of a run with one gap.
Json report_with_gap(const Gap& gap) {
  testing::ReportCase reported = testing::exhausted_case();
  reported.recording.runs.front().gaps = {gap};
  return make_report(reported);
}

Json hidden_gap(const Json& report) {
  Redactor redactor(kCorpusAll);
  redactor.keeps_names();
  return hide(redactor, report)["limitations"][0];
}

const Gap& foreign_gap() {
  static const Gap gap = {.what = "segments made in " + as_path("/srv/acme-mri"),
                          .why = say("another program already traces the process: process {} ({})",
                                     7, as_name("acme-tracer")),
                          .effect = "dlprobe reads its running threads without stopping them",
                          .remedy = "detach or end process 7 (" + as_name("acme-tracer") + ")"};
  return gap;
}

TEST(RedactCorpus, GapsKeepDlprobesWordsAndLoseTheirNames) {
  const Json gap = hidden_gap(report_with_gap(foreign_gap()));
  EXPECT_THAT(gap["what"].get<std::string>(),
              ::testing::MatchesRegex("segments made in /srv/path-[0-9]+"));
  EXPECT_THAT(gap["why"].get<std::string>(),
              ::testing::MatchesRegex(
                  "another program already traces the process: process 7 .name-[0-9]+."));
  EXPECT_EQ(gap["effect"], "dlprobe reads its running threads without stopping them");
  EXPECT_THAT(gap["remedy"].get<std::string>(),
              ::testing::MatchesRegex("detach or end process 7 .name-[0-9]+."));
}

// As it comes of a recording of old, which does not say whose words a gap has.
TEST(RedactCorpus, GapsWithoutPartsAreCutOut) {
  const Gap gap = {.what = as_text(foreign_gap().what.plain()),
                   .why = as_text(foreign_gap().why.plain()),
                   .effect = as_text(foreign_gap().effect.plain()),
                   .remedy = as_text(foreign_gap().remedy.plain())};
  const Json hidden = hidden_gap(report_with_gap(gap));
  EXPECT_THAT(hidden.dump(), Not(HasSubstr("acme")));
  EXPECT_EQ(hidden["why"], "[text]");
}

// Its names are those of findings alone.
TEST(RedactCorpus, GapsOfAReportOfAnEarlierVersionAreCutOut) {
  Json report = report_with_gap(foreign_gap());
  report["schema_version"] = "1.1";
  report["names"] = Json::array();
  EXPECT_THAT(hidden_gap(report).dump(), Not(HasSubstr("acme")));
  EXPECT_EQ(hidden_gap(report)["why"], "[text]");
}

// What the timeline and the end of a run say.
std::vector<std::string> hidden_events(const Message& event, const Message& end) {
  testing::ReportCase reported = testing::exhausted_case();
  Run& run = reported.recording.runs.front();
  run.events = {{.at = run.end->at, .kind = "note", .text = event}};
  run.end->text = end;
  Redactor redactor(kCorpusAll);
  redactor.keeps_names();
  const Json hidden = hide(redactor, make_report(reported));
  std::vector<std::string> texts = {hidden["runs"][0]["end"]["text"]};
  for (const Json& each : hidden["timeline"]["events"])
    if (each["kind"] == "note") texts.push_back(each["text"]);
  return texts;
}

TEST(RedactCorpus, EventsAndEndsKeepDlprobesWordsAndLoseTheirNames) {
  EXPECT_THAT(
      hidden_events("no room was reserved for " + as_path("acme_cache"),
                    "the command made no progress for 2 min; dlprobe ended it"),
      ::testing::ElementsAre("the command made no progress for 2 min; dlprobe ended it",
                             ::testing::MatchesRegex("no room was reserved for path-[0-9]+")));
}

TEST(RedactCorpus, EventsAndEndsWithoutPartsAreCutOut) {
  EXPECT_THAT(hidden_events(as_text("acme made no progress"), as_text("acme of alice ended")),
              ::testing::ElementsAre("[text]", "[text]"));
}

TEST(RedactCorpus, NamesInCommandLines) {
  for (const auto& [text, must_go] : hostile_texts()) {
    const std::string result = joined(hidden("", words_of(text)).command);
    // A name with blanks is one word of a command line.
    if (text.contains("' ") || text.contains("Corp") || text.contains(": ") ||
        text.contains("User Id")) {
      continue;
    }
    for (const std::string& name : must_go)
      EXPECT_THAT(result, Not(HasSubstr(name))) << text;
  }
}

TEST(RedactCorpus, NamesInsideOfAWordOfACommandLine) {
  for (const auto& [text, must_go] : hostile_texts()) {
    const std::string result = joined(hidden("", {"bash", "-c", "exec " + text}).command);
    for (const std::string& name : must_go)
      EXPECT_THAT(result, Not(HasSubstr(name))) << text;
  }
}

TEST(RedactCorpus, WordsWithBlanks) {
  const Hidden result =
      hidden("see /srv/Acme Corp/x", {"train", "--data", "/srv/Acme Corp/x.csv", "--user",
                                      "Alice Smith", "--project", "Acme Vision"});
  for (const char* name : {"Acme", "Corp", "Alice", "Smith", "Vision"})
    EXPECT_THAT(joined(result.command) + result.text, Not(HasSubstr(name)));
  EXPECT_EQ(result.command.size(), 7U);
}

// What people need to understand a report: dlprobe's own sentences.
TEST(RedactCorpus, DiagnosisStaysAsItIs) {
  for (const std::string text :
       {"DLP0306 python-lock-inherited: worker 7677 waits for a threading.Lock in python3.11, "
        "which only "
        "this process can release (the same in 1 other process or thread)",
        "torch.utils.data and torch 2.13.0, numpy 1.26.4, Python 3.11.7, opencv-python 4.9.0.80",
        "nvidia-nccl-cu12==2.18.1.0",
        "_MultiProcessingDataLoaderIter._try_get_data",
        "lock 6541:0x229760d0",
        "thread 22307/22307",
        "v1:830d606277791a97fce8efb00da02c3a",
        "2026-11-23T01:50:33.928Z",
        "at 18:06:50 and 01:51:49.083",
        "cuda:0 cuda:10 cpu:12",
        "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py:308",
        "/usr/lib/python3.11/multiprocessing/queues.py",
        "torch/utils/data/dataloader.py:1132",
        "dataloader.py:1132 in _try_get_data",
        "/dev/shm",
        "/proc/meminfo and /proc/PID/task/TID/sched",
        "stat of the files in /dev/shm and of /proc/PID/fd, maps",
        "/sys/fs/cgroup/memory.max",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "libgomp.so.1 and libtorch_cpu.so",
        "libopencv_core.so.406 (torch, opencv-python), cv2.cpython-311-x86_64-linux-gnu.so",
        "oom_kill of /proc/vmstat stood at 11",
        "OSError: [Errno 28] No space left on device",
        "[Errno 5] Input/output error",
        "read /proc/29586/exe: No such process (ESRCH)",
        "RuntimeError: DataLoader worker (pid 7677) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory. Please try to raise your shared "
        "memory "
        "limit.",
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
        "multiprocessing, you must use the 'spawn' start method",
        "DataLoader(..., multiprocessing_context='forkserver')",
        "DataLoader(..., num_workers=1)",
        "torch.multiprocessing.set_sharing_strategy('file_descriptor')",
        "docker run --shm-size=4g --ipc=host ...",
        "docker exec CONTAINER df -h /dev/shm",
        "systemd-run --scope -p MemoryMax=8G",
        "dlprobe shm -- COMMAND",
        "dlprobe deadlock --pid PID",
        "no room was reserved for torch_6281_2629491651_1 (20.0 MiB; 0 B were free)",
        "(2 workers x 2 prefetched + 1 in the training loop) x 18.4 MiB per batch",
        "120.5 images/s, 3.1 MiB/s, 12 samples/s",
        "read/write of /dev/null, and/or n/a",
        "https://pytorch.org/docs/stable/data.html",
        "https://github.com/pytorch/pytorch/issues/16979",
        "localhost:29500 and 127.0.0.1:8080 and [::1]:80",
        "root user, --user root",
        "std::vector<c10::IValue> and at::native::add(x[::2], y[1::2])",
        "x86_64 float32 3x224x224",
        "rw,nosuid,nodev,size=65536k",
        "MASTER_ADDR=localhost",
        "--nnodes=4 --node-rank 3",
        "train.py and data/train/main.py",
        "Debian GNU/Linux 12 (bookworm)",
        "GLIBC_2.34",
        "--level quick starts no loader",
        "killed by signal 9 (SIGKILL)",
        "*** and https://***@localhost/"}) {
    Json report = report_of(text, {});
    report["names"] = Json::array();
    EXPECT_EQ(hidden_report(report).text, text);
  }
}

TEST(RedactCorpus, ForeignTextsThatNameNobodyStay) {
  for (const std::string text :
       {"No such file or directory", "read /proc/29586/exe: No such process (ESRCH)", "/dev/shm",
        "/sys/fs/cgroup/memory.max", "/usr/lib/python3.11/multiprocessing/queues.py",
        "/lib/x86_64-linux-gnu/libc.so.6", "OSError: [Errno 28] No space left on device",
        "killed by signal 9 (SIGKILL)", "***", "torch_6281_2629491651_1", "20.0 MiB", "spawn",
        "2.13.0"}) {
    EXPECT_EQ(hidden(text).text, text);
  }
}

TEST(RedactCorpus, ArgumentsThatNameNobodyStay) {
  for (const std::string line : {"python3 -u --num-workers 8 --batch_size=64 --start-method spawn "
                                 "--sharing-strategy file_system",
                                 "/usr/bin/python3.11 -- -m 29500"}) {
    EXPECT_EQ(joined(hidden("", words_of(line)).command), line);
  }
  EXPECT_EQ(joined(hidden("", {"python3", "-c", "print('acme')", "--lr", "spam", "3"}).command),
            "python3 -c [text] [text] [text] 3");
}

TEST(RedactCorpus, OneThingHasOneNameWhereverItStands) {
  Json report = report_of("GPU-7 reads " + kCorpusHome + "/alice/acme-mri/a.py, alice waits",
                          {"train", "--host", "gpu-7", "/scratch/alice/acme-mri"});
  report["names"].back() = {{"kind", "path"}, {"text", kCorpusHome + "/alice/acme-mri/a.py"}};
  const Hidden result = hidden_report(report);
  EXPECT_THAT(result.text,
              ::testing::MatchesRegex("host-1 reads " + kCorpusHome +
                                      "/user-1/path-[0-9]+/path-[0-9]+.py, user-1 waits"));
  const std::string folder = result.text.substr(result.text.find("path-"));
  EXPECT_THAT(joined(result.command),
              ::testing::MatchesRegex(".text. --host host-1 /path-[0-9]+/user-1/" +
                                      folder.substr(0, folder.find('/'))));
}

TEST(RedactCorpus, WhatIsKnownOfAPathStays) {
  EXPECT_THAT(hidden("/opt/acme/lib/python3.11/site-packages/torch/x.py").text,
              ::testing::MatchesRegex("/opt/path-[0-9]+/lib/python3.11/site-packages/torch/x.py"));
  EXPECT_THAT(hidden("/srv/a-b/scan.py").text,
              ::testing::MatchesRegex("/srv/path-[0-9]+/path-[0-9]+.py"));
  EXPECT_THAT(hidden("/opt/acme/bin/python3.11").text,
              ::testing::MatchesRegex("/opt/path-[0-9]+/bin/python3.11"));
  EXPECT_THAT(
      hidden("look at /srv/acme: No such file or directory (ENOENT)").text,
      ::testing::MatchesRegex("look at /srv/path-[0-9]+: No such file or directory .ENOENT."));
}

TEST(RedactCorpus, NamesThatPseudonymsCouldBeAreReplaced) {
  EXPECT_THAT(hidden("", {"x", "--host", "host-33"}).command[2], Not(HasSubstr("33")));
}

TEST(RedactCorpus, NumbersOfAnEarlierRedactionAreNotGivenAgain) {
  Redactor hosts({"hosts"});
  const Json once = hide(hosts, report_of("", {}));
  Redactor all(kCorpusAll);
  const Json twice = hide(all, once);
  Json more = once;
  more["host"]["node"] = "node18";
  Redactor third(kCorpusAll);
  const Json host = hide(third, more)["host"];
  EXPECT_EQ(host["name"], once["host"]["name"]);
  EXPECT_NE(host["name"], host["node"]);
  EXPECT_EQ(twice["redaction"]["kinds"], Json(kCorpusAll));
}

TEST(RedactCorpus, ProgramsAndSegmentsWithNamesOfTheirOwn) {
  Json report =
      report_of("worker acme-trainer left acme_cache", {"python3", "train_acme_patients_v2.py"});
  report["names"].back() = {{"kind", "name"}, {"text", "acme-trainer"}};
  report["names"].push_back({{"kind", "path"}, {"text", "acme_cache"}});
  report["processes"][0]["comm"] = "acme-trainer";
  report["processes"][1]["comm"] = "train_acme_pati";
  Json& ledger = report["runs"][0]["shm_ledgers"][0];
  Json segment = ledger["largest_segments"][0];
  ledger["largest_segments"].clear();
  for (const char* name : {"acme_cache", "torch_7_1_2", "vader_segment.gpu-7.1.0"}) {
    segment["name"] = name;
    ledger["largest_segments"].push_back(segment);
  }
  Redactor redactor(kCorpusAll);
  redactor.keeps_names();
  const Json result = hide(redactor, report);
  EXPECT_THAT(text_of_json(result), Not(HasSubstr("acme")));
  const Json& segments = result["runs"][0]["shm_ledgers"][0]["largest_segments"];
  EXPECT_EQ(segments[1]["name"], "torch_7_1_2");
  EXPECT_THAT(segments[2]["name"].get<std::string>(), Not(HasSubstr("gpu-7")));
  EXPECT_THAT(result["summary"]["headline"].get<std::string>(),
              ::testing::StartsWith("worker name-"));
}

TEST(RedactCorpus, EveryReportOfTheCasesStaysAReport) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const Json report = make_report(each);
    Redactor redactor(kCorpusAll);
    const Json once = hide(redactor, report);
    EXPECT_TRUE(parse_report(text_of_json(once))) << each.name;
    Redactor second(kCorpusAll);
    EXPECT_EQ(text_of_json(hide(second, once)), text_of_json(once)) << each.name;
    for (const ReportFormat& format : report_formats())
      EXPECT_FALSE(format.render(typed(once), {}).empty() &&
                   !format.render(typed(report), {}).empty())
          << each.name << " as " << format.name;
  }
}

}  // namespace
}  // namespace dlprobe
