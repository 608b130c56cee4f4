#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/message.h"
#include "lib/base/names.h"
#include "lib/model/ids.h"
#include "lib/model/rank_state.h"
#include "lib/model/recording.h"
#include "lib/model/setting.h"
#include "lib/model/wait_graph.h"

namespace dlprobe {

enum class Severity { kInfo, kWarning, kError };
template <>
struct Names<Severity> {
  static constexpr auto kList = std::to_array<std::string_view>({"info", "warning", "error"});
};
enum class Confidence { kPossible, kLikely, kCertain };
template <>
struct Names<Confidence> {
  static constexpr auto kList = std::to_array<std::string_view>({"possible", "likely", "certain"});
};

/// Every cause that dlprobe can name; one per line of finding_codes.def.
enum class FindingCode {
#define DLP_FINDING(enumerator, code, name, severity, title) k##enumerator,
#include "lib/model/finding_codes.def"
#undef DLP_FINDING
};

/// A line of the registry.
struct FindingInfo {
  FindingCode id;
  std::string_view code;  ///< "DLP0101"
  std::string_view name;  ///< "shm-too-small"
  Severity severity;      ///< as a rule; a probe may lower it
  std::string_view title;
};

std::span<const FindingInfo> all_findings();
const FindingInfo& info(FindingCode code);
/// By code or by name, ignoring case ("DLP0101", "shm-too-small"); null if there is none.
const FindingInfo* find_finding(std::string_view code_or_name);

/// One fact that a verdict rests on.
struct Evidence {
  std::string name;  ///< snake_case: "shm_size"
  std::variant<int64_t, double, Message> value;
  std::string unit;  ///< "bytes", "s", "1" for a count, "" for text
  Message source;    ///< the kernel file or call: "statvfs /dev/shm (namespace of pid 42)"
  std::optional<BootNs> at;
  std::optional<std::string> threshold;  ///< "> shm_size": what it was held against
  bool operator==(const Evidence&) const = default;
};

/// A line of the user's program that a finding is about.
struct SourcePlace {
  std::string file;
  int32_t line = 0;  ///< from 1; 0: the file as a whole
  Message what;      ///< what stands there, in a few words
  bool operator==(const SourcePlace&) const = default;
};

/// A cause that looks the same from afar, and why it is not this one.
struct Alternative {
  std::string cause;  ///< a code where there is one ("DLP0501"), else words
  Message why_not;
  bool operator==(const Alternative&) const = default;
};

/// What came of a remedy that was tried.
enum class RemedyOutcome {
  kConfirmed,     ///< the failure was there without it, each time, and is gone with it
  kNotHelped,     ///< the same failure came with it
  kInconclusive,  ///< neither is proven; the text says why
};
template <>
struct Names<RemedyOutcome> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"confirmed", "not-helped", "inconclusive"});
};

/// One run of the command in the trial of a remedy.
struct AttemptAccount {
  bool has_failed_alike = false;    ///< the finding that it is about was seen
  bool has_ended_well = false;      ///< that was not seen, and it came at least as far
  Message ended;                    ///< "exit code 0", "it still ran", "it was not started: ..."
  std::optional<double> seconds;    ///< nothing: not started, or it is not known when it ended
  std::vector<FindingCode> others;  ///< what else was found, of severity error
  Message why_not;                  ///< it proves nothing, because of this; empty: it proves one
  bool operator==(const AttemptAccount&) const = default;
};

/// The account of a remedy that was tried.
struct Confirmation {
  RemedyOutcome outcome = RemedyOutcome::kInconclusive;
  Message text;  ///< one sentence
  std::vector<AttemptAccount> with_it;
  std::vector<AttemptAccount> without;  ///< the first run, and each one that was made as it was
  bool operator==(const Confirmation&) const = default;
};

/// One way to mend it.
struct Remedy {
  Message title;
  std::vector<Message> commands;
  /// "bare-host", "docker", "kubernetes", "slurm"; or a change of the program.
  std::vector<std::string> applies_to = {"code"};
  Message verify;  ///< a command that shows whether it helped
  /// The same, where dlprobe can set all of it from outside for a command that it starts.
  std::vector<Setting> settings;
  std::optional<Confirmation> confirmation;  ///< it was tried
  bool operator==(const Remedy&) const = default;
};

/// A named cause with its proof.
struct Finding {
  FindingCode code;
  Severity severity = Severity::kError;
  Confidence confidence = Confidence::kCertain;
  Message message;                    ///< one sentence with the numbers
  std::vector<ProcessKey> processes;  ///< whom it is about
  std::string discriminator;  ///< makes two different cases of one code differ; no pid, no host
  std::vector<Evidence> evidence;   ///< never empty
  std::vector<SourcePlace> places;  ///< where to mend it first; may be empty
  std::vector<Alternative> alternatives;
  std::vector<Remedy> remedies;
  std::optional<BootNs> first_seen;
  std::optional<BootNs> last_seen;
  std::optional<FindingCode> consequence_of;  ///< the root cause among the same run's findings
  std::vector<int> runs;                      ///< indices of the runs in which it was seen

  void prove(Evidence piece) { evidence.push_back(std::move(piece)); }
  /// `cause` looks alike.
  void rule_out(std::string cause, Message why_not) {
    alternatives.push_back({std::move(cause), std::move(why_not)});
  }
  /// In the program, unless more is said of it.
  void advise(Message title, std::vector<Message> commands = {}, Message verify = {}) {
    remedies.push_back(
        {.title = std::move(title), .commands = std::move(commands), .verify = std::move(verify)});
  }
  bool operator==(const Finding&) const = default;
};

/// A finding about ranks of a job, and those that it is about: the first one foremost; indices into
/// the ranks that were judged.
struct RankFinding {
  Finding finding;
  std::vector<size_t> ranks;
};

/// One row of "how big will it be, how big was it".
struct ShmForecast {
  uint64_t batch_bytes = 0;  ///< one batch with headers and page rounding, all of its tensors
  uint64_t most_bytes = 0;   ///< with the batch more that PyTorch's loop may have for a moment
  uint64_t batches = 0;      ///< alive at once, at the most
  uint64_t bytes = 0;        ///< batch_bytes x batches
  OwnWords formula;          ///< "(2 workers x 2 prefetched + 1 in the training loop) x 18.4 MiB"
  bool operator==(const ShmForecast&) const = default;
};

/// How a named check came out.
enum class CheckStatus { kPass, kWarn, kFail, kIncomplete, kSkipped };
template <>
struct Names<CheckStatus> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"pass", "warn", "fail", "incomplete", "skipped"});
};

/// One line of `dlprobe gate`.
struct NamedCheck {
  std::string id;     ///< stable: "shm.size"
  std::string title;  ///< what is so where it passes
  CheckStatus status = CheckStatus::kPass;
  Message text;                    ///< what was seen, or why it was not made
  std::vector<FindingCode> codes;  ///< the findings that make it fail
  bool operator==(const NamedCheck&) const = default;
};

/// A table of a report that shows what a probe looked at.
enum class ReportTable { kSharedMemory, kOpenFiles, kMemory };
template <>
struct Names<ReportTable> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"shared-memory", "open-files", "memory"});
};

/// A cause that a probe looked for, be it found or not.
struct LookedFor {
  FindingCode code;
  std::string probe;      ///< whose it is: "shm"
  bool was_seen = false;  ///< what tells it from its absence was; false: nothing can be said
  bool operator==(const LookedFor&) const = default;
};

/// What one probe says: findings with the root cause first, and what it could not look at.
/// No finding and no gap is "healthy"; no finding but a gap is "not checked".
struct Verdict {
  std::vector<Finding> findings;
  std::vector<Gap> gaps;
  std::vector<Gap> limits;             ///< what was not looked at, and the verdict stands without
  std::vector<WaitGraph> wait_graphs;  ///< at most one per run
  std::vector<RankState> ranks;        ///< of distributed jobs, at the last look
  std::optional<TuneResult> tune;      ///< of `dlprobe tune`
  std::vector<NamedCheck> checks;      ///< of `dlprobe gate`; empty: one for each cause
  std::vector<LookedFor> looked_for;   ///< each code once
  Message all_well;                    ///< what no warning means here, in one sentence
  std::vector<ReportTable> tables;     ///< that belong to this verdict
  bool operator==(const Verdict&) const = default;
};

}  // namespace dlprobe
