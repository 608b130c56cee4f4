#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "lib/model/run_words.h"
#include "reports/model/examination.h"
#include "reports/model/policy.h"

namespace dlprobe {

/// Turns times of a recording into times of day, by the two clocks that its header read together.
class TimeOfDay {
 public:
  explicit TimeOfDay(const RecordingHeader& header) : header_(header) {}

  /// "2026-11-20T21:47:44.120Z"; nothing for a time beyond the year 9999.
  std::optional<std::string> utc(BootNs at) const;

  report::Moment moment(BootNs at) const;
  std::optional<report::Moment> moment(const std::optional<BootNs>& at) const;

 private:
  const RecordingHeader& header_;
};

/// Lays messages out as text, and remembers what of them is not dlprobe's own.
class Sentences {
 public:
  std::string text_of(const Message& message);
  report::Gap texts_of(const Gap& gap);
  /// A piece that stands in some text.
  void add(PartKind kind, const std::string& text);
  /// The pieces so far, each once, in the order of first use.
  const std::vector<report::PastedName>& names() const { return names_; }

 private:
  std::vector<report::PastedName> names_;
  std::set<std::pair<PartKind, std::string>> known_;
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
  Sentences& sentences;
};

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

/// A number of the recording that cannot be negative.
inline uint64_t as_count(std::integral auto number) {
  return static_cast<uint64_t>(number);
}

/// The time between `from` and `to` in seconds.
double seconds_between(BootNs from, BootNs to);

/// What a thread does.
report::Doing doing_of(const WaitNode& node, const ReportSource& source);

/// The graph that `wait_graph` shows: of the first run with a chain, else of the last run; null if
/// there is none. Those of other runs are in `runs[].wait_graph`.
const WaitGraph* main_wait_graph(const Verdict& verdict);
report::WaitGraph wait_graph_of(const WaitGraph& graph, const ReportSource& source);

/// What became of a command under one start method; nothing if it was not tried.
std::optional<report::Trial> trial_of(const Run& run, const ReportSource& source, size_t index);

report::WaitGraph wait_graph_section(const ReportSource& source);
std::vector<report::Finding> findings_section(const ReportSource& source);
/// The same of those that a configuration has taken out of the verdict.
std::vector<report::Finding> suppressed_section(const ReportSource& source);
/// The same fault has the same one tomorrow and on another node: no pid, host, time or size.
std::string fingerprint_of(const Finding& finding, const Recording& recording);
std::vector<report::Check> checks_section(const ReportSource& source);
std::vector<report::Run> runs_section(const ReportSource& source);
/// What `dlprobe tune` has measured and recommends.
report::Tune tune_section(const TuneResult& tune);
std::vector<report::Rank> ranks_section(const ReportSource& source);
std::vector<report::Process> processes_section(const ReportSource& source);
report::Timeline timeline_section(const ReportSource& source);
std::vector<report::Limitation> limitations_section(const ReportSource& source);

/// Where the shared memory of each mount went, at the moment of its highest use and at the last
/// look.
std::vector<report::ShmLedger> ledgers_of(const Run& run, const ReportSource& source);

}  // namespace dlprobe
