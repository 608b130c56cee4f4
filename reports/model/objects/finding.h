#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/finding.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// A process that a finding is about.
struct FindingProcess {
  int64_t pid = 0;
  uint64_t start_ticks = 0;
  std::optional<Role> role;
  std::optional<std::string> comm;
};
constexpr void list_fields(auto&& field, Of<FindingProcess> /*of*/) {
  field("pid", &FindingProcess::pid);
  field("start_ticks", &FindingProcess::start_ticks);
  field("role", &FindingProcess::role);
  field("comm", &FindingProcess::comm, Holds::kName);
}

/// Whom a finding is about.
struct FindingSubject {
  std::vector<FindingProcess> processes;
};
constexpr void list_fields(auto&& field, Of<FindingSubject> /*of*/) {
  field("processes", &FindingSubject::processes);
}

/// A line of the user's program.
struct Location {
  std::string path;
  std::optional<uint64_t> line;
  std::string what;
};
constexpr void list_fields(auto&& field, Of<Location> /*of*/) {
  field("path", &Location::path, Holds::kPath);
  field("line", &Location::line);
  field("what", &Location::what, Holds::kSentence);
}

/// One fact that a finding rests on.
struct Evidence {
  std::string name;
  std::optional<EvidenceValue> value;
  std::string unit;
  std::string source;
  std::optional<std::string> threshold;
  std::optional<Moment> seen;
};
constexpr void list_fields(auto&& field, Of<Evidence> /*of*/) {
  field("name", &Evidence::name, Holds::kWord);
  field("value", &Evidence::value, Holds::kSentence);
  field("unit", &Evidence::unit, Holds::kWord, "bytes, s, 1 for a count, empty for text");
  field("source", &Evidence::source, Holds::kSentence, "the kernel file or call that said it");
  field("threshold", &Evidence::threshold, Holds::kWord, "what the value was held against");
  field("seen", &Evidence::seen);
}

/// A cause that looks the same from afar, and why it is not this one.
struct Alternative {
  std::string cause;
  std::optional<CodeText> code;
  std::string why_not;
};
constexpr void list_fields(auto&& field, Of<Alternative> /*of*/) {
  field("cause", &Alternative::cause, Holds::kWord);
  field("code", &Alternative::code);
  field("why_not", &Alternative::why_not, Holds::kSentence);
}

/// Something that dlprobe can set from outside for a command that it starts.
struct Setting {
  SettingKind kind{};
  std::string value;
  std::optional<std::string> name;
};
constexpr void list_fields(auto&& field, Of<Setting> /*of*/) {
  field("kind", &Setting::kind);
  field("value", &Setting::value, Holds::kWord, "numbers in digits, sizes in bytes");
  field("name", &Setting::name, Holds::kWord, "of environment: the variable");
}

/// One run of the command in the trial of a remedy.
struct Attempt {
  bool failed_alike = false;
  std::string ended;
  std::optional<double> duration_s;
  std::vector<CodeText> other_errors;
  std::optional<std::string> no_proof_because;
};
constexpr void list_fields(auto&& field, Of<Attempt> /*of*/) {
  field("failed_alike", &Attempt::failed_alike, "the same finding was seen");
  field("ended", &Attempt::ended, Holds::kSentence);
  field("duration_s", &Attempt::duration_s);
  field("other_errors", &Attempt::other_errors);
  field("no_proof_because", &Attempt::no_proof_because, Holds::kSentence);
}

/// What came of a remedy that --confirm tried.
struct Confirmation {
  RemedyOutcome outcome{};
  std::string text;
  std::vector<Attempt> with_it;
  std::vector<Attempt> without;
};
constexpr void list_fields(auto&& field, Of<Confirmation> /*of*/) {
  field("outcome", &Confirmation::outcome);
  field("text", &Confirmation::text, Holds::kSentence);
  field("with_it", &Confirmation::with_it);
  field("without", &Confirmation::without, "the first run, and those that were made as it was");
}

/// One way to mend it.
struct Remedy {
  std::string title;
  std::vector<std::string> commands;
  std::vector<std::string> applies_to;
  std::string verify;
  std::optional<std::vector<Setting>> settings;
  std::optional<Confirmation> confirmed;
};
constexpr void list_fields(auto&& field, Of<Remedy> /*of*/) {
  field("title", &Remedy::title, Holds::kSentence);
  field("commands", &Remedy::commands, Holds::kSentence);
  field("applies_to", &Remedy::applies_to, Holds::kWord);
  field("verify", &Remedy::verify, Holds::kSentence);
  field("settings", &Remedy::settings,
        "the same, where dlprobe can set all of it from outside for a command that it starts");
  field("confirmed", &Remedy::confirmed, "what came of the remedy, which --confirm tried");
}

/// Where to read on.
struct Reference {
  std::string title;
};
constexpr void list_fields(auto&& field, Of<Reference> /*of*/) {
  field("title", &Reference::title, Holds::kWord);
}

/// Why a finding does not count, and who has said so.
struct Suppressed {
  std::string reason;
  std::string source;
  std::optional<DayText> until;
};
constexpr void list_fields(auto&& field, Of<Suppressed> /*of*/) {
  field("reason", &Suppressed::reason);
  field("source", &Suppressed::source, "the line of the configuration");
  field("until", &Suppressed::until, "the last day, UTC; absent: for ever");
}

/// A named cause with its proof.
struct Finding {
  FindingIdText id;
  CodeText code;
  std::string name;
  std::string title;
  Severity severity{};
  Confidence confidence{};
  std::string message;
  FingerprintText fingerprint;
  std::optional<CodeText> consequence_of;
  std::vector<uint64_t> runs;
  FindingSubject subject;
  std::optional<std::vector<Location>> locations;
  std::vector<Evidence> evidence;
  std::vector<Alternative> alternatives;
  std::vector<Remedy> remediation;
  std::vector<Reference> references;
  std::optional<Moment> first_seen;
  std::optional<Moment> last_seen;
  std::optional<std::string> nodes;
  std::optional<uint64_t> occurrences;
  std::optional<std::string> severity_source;
  std::optional<Suppressed> suppressed;
};
constexpr void list_fields(auto&& field, Of<Finding> /*of*/) {
  field("id", &Finding::id);
  field("code", &Finding::code);
  field("name", &Finding::name, Holds::kWord);
  field("title", &Finding::title, Holds::kWord);
  field("severity", &Finding::severity);
  field("confidence", &Finding::confidence);
  field("message", &Finding::message, Holds::kSentence, "one sentence with the numbers");
  field("fingerprint", &Finding::fingerprint,
        "the same for the same fault at another time and on another node");
  field("consequence_of", &Finding::consequence_of);
  field("runs", &Finding::runs);
  field("subject", &Finding::subject);
  field("locations", &Finding::locations, "lines of the user's program, the one to mend first");
  field("evidence", &Finding::evidence);
  field("alternatives", &Finding::alternatives);
  field("remediation", &Finding::remediation);
  field("references", &Finding::references);
  field("first_seen", &Finding::first_seen);
  field("last_seen", &Finding::last_seen);
  field("nodes", &Finding::nodes, Holds::kHost,
        "of a merged report: where it was seen, folded as n[1-4,7]");
  field("occurrences", &Finding::occurrences, "of a merged report: on how many nodes");
  field("severity_source", &Finding::severity_source,
        "the line of the configuration that gave it its severity");
  field("suppressed", &Finding::suppressed);
}

}  // namespace dlprobe::report
