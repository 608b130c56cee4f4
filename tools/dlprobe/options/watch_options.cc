#include "tools/dlprobe/options/watch_options.h"

#include "lib/base/units.h"

namespace dlprobe {
namespace {

constexpr std::chrono::milliseconds kShortestInterval{10};
constexpr std::chrono::seconds kLongestInterval{10};
constexpr std::chrono::seconds kUntilGrowthShows(16);
// What somebody who faces a hung job waits for an answer; two snapshots a second apart tell enough.
constexpr std::chrono::seconds kQuickAnswer{3};
// A job that stands still for longer is no longer undisturbed.
constexpr std::chrono::seconds kLongestPause{1};

Expected<std::chrono::nanoseconds> parse_interval(const std::string& text) {
  DLP_TRY(const auto interval, parse_duration(text));
  if (interval < kShortestInterval || interval > kLongestInterval) {
    return failure(ErrorCode::kInvalid, "--interval " + text + " is not between 10ms and 10s");
  }
  return interval;
}

}  // namespace

void add_pause_options(CLI::App& command, PauseOptions& options, const std::string& group) {
  auto* max_pause = command
                        .add_option("--max-pause", options.max_pause,
                                    "about the longest stop of a running thread, to copy its "
                                    "stack; blocked threads are not stopped")
                        ->type_name("DURATION")
                        ->capture_default_str()
                        ->group(group);
  command
      .add_flag("--no-pause", options.no_pause,
                "stop no thread: running threads then show no native stack")
      ->excludes(max_pause)
      ->group(group);
}

Expected<SnapshotOptions> snapshot_options(const PauseOptions& options) {
  if (options.no_pause) return SnapshotOptions{.max_pause = std::chrono::nanoseconds(0)};
  DLP_TRY(const auto pause, parse_duration(options.max_pause));
  if (pause > kLongestPause) {
    return failure(ErrorCode::kInvalid, "--max-pause " + options.max_pause + " is more than 1s");
  }
  return SnapshotOptions{.max_pause = pause};
}

void add_sampling_options(CLI::App& command, SamplingOptions& options, const std::string& group) {
  command.add_option("--interval", options.interval, "time between samples")
      ->type_name("DURATION")
      ->capture_default_str()
      ->group(group);
  command.add_option("--record", options.record_path, "save a recording, for dlprobe replay")
      ->type_name("FILE")
      ->group(group);
}

Status put_sampling_options(const SamplingOptions& options, ExamineRequest& request) {
  DLP_TRY(request.interval, parse_interval(options.interval));
  request.record_path = options.record_path;
  return {};
}

void add_watch_options(CLI::App& command, WatchOptions& options, const Probe& probe,
                       const std::string& group) {
  const auto by_default =
      std::chrono::duration_cast<std::chrono::seconds>(default_watch_of_pid(probe)).count();
  command
      .add_option("--for", options.watch_for,
                  "end the watch (not the job) after this time; default for a running process: " +
                      std::to_string(by_default) + "s if not given")
      ->type_name("DURATION")
      ->group(group);
  add_sampling_options(command, options.sampling, group);
  if (probe.needs_snapshots) add_pause_options(command, options.pause, group);
}

std::chrono::nanoseconds default_watch_of_pid(const Probe& probe) {
  return probe.needs_snapshots ? kQuickAnswer : std::chrono::seconds(probe.watch_of_pid_s);
}

Status put_watch_options(const WatchOptions& options, const Probe& probe, ExamineRequest& request) {
  DLP_CHECK(put_sampling_options(options.sampling, request));
  if (!options.watch_for.empty()) {
    DLP_TRY(request.watch_for, parse_duration(options.watch_for));
  } else if (auto* process = std::get_if<PidSubject>(&request.subject)) {
    request.watch_for = default_watch_of_pid(probe);
    // Whoever says how long to watch gets that.
    if (probe.needs_snapshots) process->longer_if_unclear = kUntilGrowthShows - kQuickAnswer;
    if (probe.ends_when_found) {
      process->longer_if_nothing_found = default_watch_of_pid(probe) - kQuickAnswer;
      request.watch_for = kQuickAnswer;
    }
  }
  DLP_TRY(request.snapshot, snapshot_options(options.pause));
  return {};
}

}  // namespace dlprobe
