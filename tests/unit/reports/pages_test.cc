#include "reports/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/base/parse.h"
#include "reports/document/text_page.h"

namespace dlprobe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using enum FindingCode;

std::vector<FindingCode> found(std::string_view text) {
  std::vector<FindingCode> codes;
  std::ranges::transform(find_pages(text), std::back_inserter(codes), &PageMatch::code);
  return codes;
}

TEST(FindPages, ErrorTextsLeadToWhatTheyBearOut) {
  for (const FindingCode code : {kFdLimitTooLow, kFdExhausted, kBatchesKeptByConsumer})
    EXPECT_THAT(found("RuntimeError: received 0 items of ancdata"), Contains(code));
  EXPECT_EQ(
      found("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error.").at(0),
      kShmExhausted);
  EXPECT_EQ(found("RuntimeError: Cannot re-initialize CUDA in forked subprocess.").at(0),
            kCudaInForkedChild);
  EXPECT_EQ(found("context has already been set").at(0), kStartMethodAlreadySet);
  EXPECT_EQ(found("Segmentation fault").at(0), kWorkerCrashed);
  for (const char* text : {"Killed", "killed", "train.sh: line 3: 4711 Killed  python train.py",
                           "DataLoader worker (pid 4711) is killed by signal: Killed."})
    EXPECT_EQ(found(text).at(0), kOomKilledByCgroup) << text;
  EXPECT_EQ(found("DataLoader worker (pid 4711) is killed by signal: Segmentation fault").at(0),
            kWorkerCrashed);
}

TEST(FindPages, TextsThatNoPageQuotesLeadToTheirCauses) {
  EXPECT_EQ(found("EOFError: Ran out of input").at(0), kUnpicklableObject);
  EXPECT_EQ(found("concurrent.futures.process.BrokenProcessPool: A process in the process pool was "
                  "terminated abruptly while the future was running or pending.")
                .at(0),
            kWorkerExited);
  EXPECT_EQ(found("_pickle.UnpicklingError: invalid load key, '\\x00'.").at(0),
            kHandleSharedOverFork);
  EXPECT_EQ(
      found("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42)").at(0),
      kRankBehind);
  EXPECT_EQ(found("A process in the process pool was terminated abruptly while the future was "
                  "running or pending.")
                .at(0),
            kWorkerExited);
  EXPECT_EQ(found("resource_tracker: There appear to be 48 leaked shared_memory objects").at(0),
            kShmStaleFiles);
  EXPECT_EQ(found("RuntimeError: generator raised StopIteration").at(0), kUncaughtException);
  EXPECT_EQ(found("*** Error: double free or corruption (!prev)").at(0), kWorkerCrashed);
}

TEST(FindPages, HowAProcessEndedLeadsToWhatEndsItSo) {
  for (const char* text : {"exit code 137", "137", "-9", "exitcode  : -9 (pid: 4711)", "sigkill",
                           "exit status 137", "failed (exitcode: -9) local_rank: 1 (pid: 139)",
                           "returncode=-9", "signal 9", "died with <Signals.SIGKILL: 9>"})
    EXPECT_EQ(found(text).at(0), kOomKilledByCgroup) << text;
  for (const char* text : {"exit code 139", "exitcode: -11", "code 134", "SIGSEGV", "-6"})
    EXPECT_EQ(found(text), std::vector{kWorkerCrashed}) << text;
  EXPECT_EQ(found("exit code 135").at(0), kShmExhausted);
  EXPECT_EQ(found("workers die with Bus error in a container").at(0), kShmExhausted);
  EXPECT_EQ(found("exited with code 143"), std::vector{kKilledBySignal});
  EXPECT_EQ(found("exit code 1").at(0), kUncaughtException);
  EXPECT_EQ(found("DataLoader worker (pid(s) 4711) exited unexpectedly").at(0), kWorkerExited);
  for (const char* text : {"1", "500", "-900"})
    EXPECT_THAT(found(text), IsEmpty()) << text;
}

TEST(FindPages, CaseAndWhatStandsAroundDoNotMatter) {
  const auto plain = find_pages("daemonic processes are not allowed to have children");
  ASSERT_FALSE(plain.empty());
  EXPECT_EQ(plain.at(0).code, kDaemonicProcessHasChildren);
  EXPECT_TRUE(plain.at(0).has_text);
  EXPECT_EQ(
      found("E   AssertionError: DAEMONIC processes are not allowed\n to have children (17)").at(0),
      kDaemonicProcessHasChildren);
}

TEST(FindPages, WordsAloneAreNoErrorText) {
  const auto slow = find_pages("my loader is slow");
  ASSERT_FALSE(slow.empty());
  EXPECT_EQ(slow.at(0).code, kSlowSample);
  EXPECT_FALSE(slow.at(0).has_text);
}

TEST(FindPages, QuestionsLeadToTheCommandThatReadmeNames) {
  const auto command = [](std::string_view question) {
    const auto rows = find_commands(question);
    return rows.empty() ? "" : rows.front().command;
  };
  EXPECT_EQ(command("my job is stuck on node 7"), "dlprobe attach");
  EXPECT_EQ(command("job hangs at the end of the epoch"), "dlprobe attach");
  EXPECT_EQ(command("CI fails with exit 1, why"), "dlprobe run -- python train.py");
  EXPECT_EQ(command("which of my jobs eats /dev/shm"), "dlprobe ps");
  EXPECT_EQ(command("loss differs between runs, same numbers in each worker"),
            "dlprobe run -- python train.py");
  EXPECT_EQ(command("too many open files after 3 hours"), "dlprobe fd --pid PID");
  EXPECT_EQ(command("the trainer's memory grows by 1 GB an hour"), "dlprobe memory --pid PID");
  EXPECT_THAT(command("is this node fit for 16 workers"), HasSubstr("dlprobe gate --workers 16"));
  EXPECT_THAT(command("send an incident report to a colleague without secrets"),
              HasSubstr("dlprobe report redact"));
  for (const char* text : {"", "the", "how do you do", "frobnicate the widget", "\x1b[31m\xff"})
    EXPECT_EQ(command(text), "") << text;
}

TEST(FindPages, TwoWordsOfALongerTextAreNoErrorText) {
  for (const PageMatch& match : find_pages("expects each bucket to be equal size"))
    EXPECT_FALSE(match.has_text);
}

TEST(FindPages, NothingIsFoundForWhatNoPageSpeaksOf) {
  for (const char* text :
       {"", " ", "the", "0", "99999", "frobnicate the widget", "\x1b[31m\xff\xfe"})
    EXPECT_THAT(found(text), IsEmpty()) << text;
}

TEST(FindPages, ALogOfAnyLengthIsCut) {
  EXPECT_THAT(found(std::string(1 << 20, 'x') + " Too many open files"), IsEmpty());
}

TEST(RenderPage, NoLineIsWiderThanTheScreenUnlessItIsCode) {
  for (const FindingInfo& finding : all_findings()) {
    for (const PageMarks marks : {PageMarks::kKeep, PageMarks::kRemove}) {
      const std::string page = render_page(finding.id, {.width = 80}, marks);
      for_each_line(page, [&](std::string_view line) {
        const bool may_be_wide =
            line.starts_with("    ") || line.starts_with('|') || !line.substr(0, 79).contains(' ');
        EXPECT_TRUE(may_be_wide || columns_of(line) <= 80) << line;
      });
    }
  }
}

TEST(RenderPage, MarksAreKeptOrGone) {
  const std::string kept = render_page(kShmExhausted, {.width = 80}, PageMarks::kKeep);
  EXPECT_THAT(kept, HasSubstr("\n## What it means\n"));
  EXPECT_THAT(kept, HasSubstr("`/dev/shm`"));
  const std::string plain = render_page(kShmExhausted, {.width = 80}, PageMarks::kRemove);
  EXPECT_THAT(plain, HasSubstr("\nWhat it means\n"));
  EXPECT_THAT(plain, Not(HasSubstr("#")));
  EXPECT_THAT(plain, Not(HasSubstr("`")));
  EXPECT_THAT(plain, Not(HasSubstr("**")));
  EXPECT_THAT(plain, HasSubstr("* a process of the loader died of SIGBUS"));
}

TEST(RenderPage, LinksHaveTheirWordsAlone) {
  const std::string plain =
      render_page(kForkUnsafeLibraryLoaded, {.width = 80}, PageMarks::kRemove);
  EXPECT_THAT(plain, HasSubstr("DLP0302"));
  EXPECT_THAT(plain, Not(HasSubstr("](")));
}

}  // namespace
}  // namespace dlprobe
