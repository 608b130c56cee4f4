#pragma once

#include <gmock/gmock.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "probes/probe.h"

namespace dlprobe {

/// Puts a Recording of one run together for a test. Times are seconds since the run's beginning;
/// the trainer is pid 100, its workers 101, 102 ...
class Scene {
 public:
  static constexpr int32_t kTrainerPid = 100;
  static constexpr uint64_t kDevice = 26;

  /// A run on a mount of that size with that many workers, all of them alive.
  explicit Scene(uint64_t size_bytes = 64 * kMiB, int workers = 2);

  Recording recording;
  Run& run() { return recording.runs.back(); }

  /// One more run of the same kind.
  void next_run();
  void no_mount() { run().mounts.clear(); }
  void plan(LoaderPlan plan, bool preflight);
  void process(int32_t pid, Role role);

  /// statvfs at that time.
  void use(double at_s, uint64_t used_bytes);
  /// A sample of the processes that live, waiting as `wait` says, with statvfs.
  void sample(double at_s, uint64_t used_bytes);
  void exit_by_signal(int32_t pid, double at_s, int signal_number);
  void exit_with(int32_t pid, double at_s, int exit_code);
  /// A scan of the mount at that time.
  void ledger(double at_s, std::vector<ShmSegment> segments);

  /// How each process of the next samples waits; unset: not sampled.
  std::optional<ThreadWait> trainer_wait;
  std::optional<ThreadWait> worker_wait;
  bool workers_poll_own_pipes = true;
  uint64_t cpu_ticks = 10;  ///< of each process in the next samples
  uint64_t oom_kills = 0;

  /// By the probe of shared memory, without what the others find.
  Verdict examine() const;

  static BootNs at(double seconds) { return static_cast<BootNs>(seconds * 1e9) + 1'000'000'000; }

 private:
  uint64_t size_bytes_;
  int workers_;
};

ProcessKey key_of(int32_t pid);
/// A thread in poll(2) on one pipe.
ThreadWait poll_wait(uint64_t pipe_inode, int32_t timeout_ms);
ThreadWait other_wait(int64_t syscall);

/// A named tensor file "torch_PID_1_N".
ShmSegment tensor(int32_t creator, uint64_t inode, uint64_t size, CreatorState state);
/// The same, without a name, held by `holder` of the tree.
ShmSegment unlinked_tensor(int32_t creator, uint64_t inode, uint64_t size, int32_t holder);
/// A file that a process outside the tree maps.
ShmSegment foreign_block(uint64_t inode, uint64_t size, int32_t pid, std::string comm);
ShmSegment semaphore(uint64_t inode, double age_s);

/// A finding whose message has these parts.
auto Says(const auto&... words) {
  return testing::Field(
      "message", &Finding::message,
      testing::Property("plain", &Message::plain, testing::AllOf(testing::HasSubstr(words)...)));
}
/// One whose first remedy has that in its title.
MATCHER_P(AdvisesFirst, words, "") {
  return testing::ExplainMatchResult(testing::HasSubstr(words), arg.remedies.front().title.plain(),
                                     result_listener);
}

inline auto has(FindingCode code) {
  return testing::Field("code", &Finding::code, code);
}
inline auto has(Severity severity) {
  return testing::Field("severity", &Finding::severity, severity);
}
inline auto has(Confidence confidence) {
  return testing::Field("confidence", &Finding::confidence, confidence);
}
/// A finding of that code, severity, confidence: of what is given.
auto Is(auto... values) {
  return testing::AllOf(has(values)...);
}

/// The finding of that code, if there is one.
std::optional<Finding> find(const Verdict& verdict, FindingCode code);
/// The same; ends the test by an exception if there is none.
Finding must_find(const Verdict& verdict, FindingCode code);
/// The one finding of a verdict; ends the test by an exception if it has none or several.
Finding only_finding(const Verdict& verdict);
bool has_error(const Verdict& verdict);
/// What its remedies set, in words: "start method spawn".
std::vector<std::string> what_remedies_set(const Finding& finding);
/// The integer of an evidence; -1 if it is not there.
int64_t number(const Finding& finding, std::string_view name);
std::string text(const Finding& finding, std::string_view name);

}  // namespace dlprobe
