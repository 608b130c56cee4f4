#include "tools/reference_loader/start_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "lib/subject/told_lines.h"
#include "tests/support/must.h"
#include "tools/reference_loader/ipc.h"

namespace dlprobe::loader {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr StartChain kProgram = {};
constexpr StartChain kWorker = {.generation = 1};

/// What a function tells on its progress descriptor, as dlprobe reads it.
class Told {
 public:
  Told() : pipe_(make_pipe().value()), progress(pipe_.write_end.get()) {}

  StartEvent next() {
    std::string line;
    char byte = 0;
    while (read_whole(pipe_.read_end.get(), std::as_writable_bytes(std::span(&byte, 1))) ==
               ReadOutcome::kWhole &&
           byte != '\n')
      line += byte;
    const auto record = parse_progress_line(line);
    EXPECT_TRUE(record) << line;
    return std::get<StartEvent>(*record);
  }

 private:
  Pipe pipe_;

 public:
  Progress progress;
};

TEST(StartFault, AWorkerThatRunsTheProgramIsRefusedAtTheLineThatStartsWorkers) {
  Told told;
  const auto check = [&](FaultKind fault, const StartChain& chain) {
    return check_may_start(fault, chain, StartMethod::kSpawn, told.progress);
  };
  EXPECT_TRUE(check(FaultKind::kMissingMainGuard, kProgram));
  EXPECT_TRUE(check(FaultKind::kNone, kProgram));
  EXPECT_TRUE(check(FaultKind::kRecursiveProcessCreation, kWorker));
  const Status refused = check(FaultKind::kMissingMainGuard, kWorker);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  const StartEvent event = told.next();
  EXPECT_EQ(event.kind, StartEventKind::kRefused);
  EXPECT_EQ(event.cause, StartRefusal::kBootstrapping);
  EXPECT_EQ(event.method, "spawn");
  EXPECT_EQ(event.process, own_process());
  EXPECT_GT(event.process.start_ticks, 0U);
  EXPECT_GT(event.at, 0);
  EXPECT_GT(event.line, 0);
  EXPECT_THAT(event.file, EndsWith("start_fault_test.cc"));
}

TEST(StartFault, ARecursionEndsByItself) {
  Told told;
  int generations = 0;
  while (check_may_start(FaultKind::kRecursiveProcessCreation, {.generation = generations},
                         StartMethod::kSpawn, told.progress))
    ++generations;
  EXPECT_EQ(generations + 1, 6);
  const auto tokens = make_start_tokens();
  ASSERT_TRUE(tokens);
  const StartChain chain = {.tokens = tokens->get()};
  for (int i = 0; i < 64; ++i)
    ASSERT_TRUE(take_start_token(chain)) << i;
  const Status last = take_start_token(chain);
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::kInsufficient);
  EXPECT_TRUE(take_start_token(kProgram)) << "without the fault nothing is counted";
}

TEST(StartFault, OwnWorkTakesMemoryThatStays) {
  EXPECT_EQ(do_own_work({}).bytes, 0U);
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  const FaultEffects effects{
      .doing = StartFault{.own_work = std::chrono::seconds(1), .own_memory = kBytes}};
  const OwnWork work = do_own_work(effects);
  EXPECT_GE(work.seconds, 1.0);
  EXPECT_GT(work.bytes, kBytes / 2);
}

TEST(StartFault, OfAProgramThatRunsAgainOnlyStartsAreTold) {
  const auto pipe = must(make_pipe());
  Progress quiet(pipe.write_end.get(), Progress::Tells::kStarts);
  quiet.hello({});
  quiet.event("error", "of its own");
  quiet.start({.kind = StartEventKind::kStarted, .method = "spawn", .child_pid = 7});
  std::array<char, 512> text{};
  const ssize_t count = ::read(pipe.read_end.get(), text.data(), text.size());
  ASSERT_GT(count, 0);
  const std::string line(text.data(), static_cast<size_t>(count));
  EXPECT_THAT(line, HasSubstr("\"kind\":\"started\""));
  EXPECT_EQ(line.find("hello"), std::string::npos);
  EXPECT_EQ(line.find("of its own"), std::string::npos);
}

}  // namespace
}  // namespace dlprobe::loader
