#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "reports/policy.h"
#include "reports/report.h"

namespace dlprobe {

/// Turns times of a recording into times of day, by the two clocks that its header read together.
class TimeOfDay {
 public:
  explicit TimeOfDay(const RecordingHeader& header) : header_(header) {}

  /// "2026-11-20T21:47:44.120Z"; nothing for a time beyond the year 9999.
  std::optional<std::string> utc(BootNs at) const;

  /// Sets `<name>_at` (UTC) and `<name>_boottime_ns` of `object`.
  void put(Json& object, const std::string& name, BootNs at) const;

 private:
  const RecordingHeader& header_;
};

/// What the sections of a report are made from.
struct ReportSource {
  const Recording& recording;
  const Verdict& verdict;
  TimeOfDay time;
  /// Of each finding: the line of the configuration that gave it its severity. Empty, or shorter
  /// than the findings: none did.
  std::span<const std::string> severity_sources;
  std::span<const SuppressedFinding> suppressed;
};

/// `text` as a JSON string: bytes that are no UTF-8 are written as "\xHH".
Json json_text(std::string_view text);
Json json_texts(std::span<const std::string> texts);

/// The value, where it was asked for and could be read.
inline std::optional<uint64_t> value_of(const Observed<uint64_t>& observed) {
  return observed ? std::optional(*observed) : std::nullopt;
}
inline std::optional<uint64_t> value_of(const std::optional<Observed<uint64_t>>& observed) {
  return observed ? value_of(*observed) : std::nullopt;
}

/// Makes `peak` the larger of the two; an absent value changes nothing.
inline void raise(std::optional<uint64_t>& peak, const std::optional<uint64_t>& value) {
  if (value) peak = std::max(peak.value_or(0), *value);
}

/// Sets `key` unless `value` is NaN or infinite: JSON has no such numbers.
void put_number(Json& object, const char* key, double value);

/// The time between `from` and `to` in seconds.
double seconds_between(BootNs from, BootNs to);

/// The first and the last time that the run's records name.
struct RunSpan {
  BootNs begin = 0;
  BootNs end = 0;
};
RunSpan span_of(const Run& run);

/// "killed by signal 7 (SIGBUS)", "exited with code 1".
std::string describe_exit(const Observed<int32_t>& wait_status);

/// The headline of a report without an error or a warning, in the words of the probes that ran.
std::string pass_headline(const Recording& recording);

/// Sets what a thread does: activity, since, waits_for, in_code.
void put_activity(Json& entry, const WaitNode& node, const TimeOfDay& time);

/// The graph that `wait_graph` shows: of the first run with a chain, else of the last run; null if
/// there is none. Those of other runs are in `runs[].wait_graph`.
const WaitGraph* main_wait_graph(const Verdict& verdict);
Json wait_graph_json(const WaitGraph& graph, const TimeOfDay& time);

/// Sets `trial` of a run's entry: what became of a command under one start method.
void put_trial(Json& entry, const Run& run, const ReportSource& source, size_t index);

Json wait_graph_section(const ReportSource& source);
Json findings_section(const ReportSource& source);
/// The same of those that a configuration has taken out of the verdict, with `suppressed` {reason,
/// until, source}.
Json suppressed_section(const ReportSource& source);
/// The same fault has the same one tomorrow and on another node: no pid, host, time or size.
std::string fingerprint_of(const Finding& finding, const Recording& recording);
Json checks_section(const ReportSource& source);
Json runs_section(const ReportSource& source);
/// What `dlprobe tune` has measured and recommends.
Json tune_section(const TuneResult& tune);
Json processes_section(const ReportSource& source);
Json timeline_section(const ReportSource& source);
Json limitations_section(const ReportSource& source);

/// Where the shared memory of each mount went, at the moment of its highest use and at the last
/// look.
Json ledgers_of(const Run& run, const ReportSource& source);

}  // namespace dlprobe
