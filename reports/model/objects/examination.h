#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/finding.h"
#include "reports/model/objects/finding.h"
#include "reports/model/objects/process.h"
#include "reports/model/objects/rank.h"
#include "reports/model/objects/run.h"
#include "reports/model/objects/timeline.h"
#include "reports/model/objects/tune.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// What wrote the document.
struct Tool {
  Constant<"dlprobe"> name;
  std::string version;
};
constexpr void list_fields(auto&& field, Of<Tool> /*of*/) {
  field("name", &Tool::name);
  field("version", &Tool::version, Holds::kWord);
}

/// A value of an option that a configuration file or the environment has set.
struct SettingFromElsewhere {
  std::string name;
  std::string value;
  std::string source;
};
constexpr void list_fields(auto&& field, Of<SettingFromElsewhere> /*of*/) {
  field("name", &SettingFromElsewhere::name, Holds::kWord);
  field("value", &SettingFromElsewhere::value, "secrets masked");
  field("source", &SettingFromElsewhere::source);
}

/// How dlprobe was called.
struct Invocation {
  std::string probe;
  std::vector<std::string> argv;
  uint64_t euid = 0;
  std::optional<std::string> working_folder;
  double interval_s = 0;
  Moment started;
  Moment ended;
  double duration_s = 0;
  std::optional<std::vector<SettingFromElsewhere>> settings;
  Severity fail_on{};
  OneOf<0, 1, 3> exit_code;
};
constexpr void list_fields(auto&& field, Of<Invocation> /*of*/) {
  field("probe", &Invocation::probe, Holds::kWord);
  field("argv", &Invocation::argv, Holds::kArgument, "secrets masked");
  field("euid", &Invocation::euid);
  field("working_folder", &Invocation::working_folder, Holds::kPath);
  field("interval_s", &Invocation::interval_s);
  field("started", &Invocation::started);
  field("ended", &Invocation::ended);
  field("duration_s", &Invocation::duration_s);
  field("settings", &Invocation::settings,
        "options that a configuration file or the environment has set");
  field("fail_on", &Invocation::fail_on);
  field("exit_code", &Invocation::exit_code);
}

/// The machine.
/// A limit that this machine sets every process, or the processes of this user.
struct NodeLimit {
  std::string name;
  std::string value;
};
constexpr void list_fields(auto&& field, Of<NodeLimit> /*of*/) {
  field("name", &NodeLimit::name, Holds::kWord);
  field("value", &NodeLimit::value, Holds::kWord, "a number, or \"unlimited\"");
}

struct Host {
  std::string name;
  std::optional<std::string> node;
  std::string kernel;
  std::string os;
  std::string machine;
  uint64_t cpus = 0;
  uint64_t page_size_bytes = 0;
  std::optional<std::vector<NodeLimit>> limits;
};
constexpr void list_fields(auto&& field, Of<Host> /*of*/) {
  field("name", &Host::name, Holds::kHost);
  field("node", &Host::node, Holds::kHost, "its name for the scheduler, where that is another");
  field("kernel", &Host::kernel, Holds::kWord);
  field("os", &Host::os, Holds::kWord);
  field("machine", &Host::machine, Holds::kWord);
  field("cpus", &Host::cpus);
  field("page_size_bytes", &Host::page_size_bytes);
  field("limits", &Host::limits, "as far as they were read; report merge compares them");
}

/// What the subject ran in.
struct Context {
  std::string container;
  std::optional<std::string> job_id;
  std::optional<std::string> rank;
  std::optional<std::string> cgroup;
  std::optional<OneOf<1, 2>> cgroup_version;
  std::optional<uint64_t> cgroup_limit_bytes;
  std::optional<uint64_t> cgroup_used_bytes;
};
constexpr void list_fields(auto&& field, Of<Context> /*of*/) {
  field("container", &Context::container, Holds::kWord, "empty: none was recognised");
  field("job_id", &Context::job_id);
  field("rank", &Context::rank);
  field("cgroup", &Context::cgroup, Holds::kPath);
  field("cgroup_version", &Context::cgroup_version);
  field("cgroup_limit_bytes", &Context::cgroup_limit_bytes);
  field("cgroup_used_bytes", &Context::cgroup_used_bytes);
}

/// What was examined.
struct Subject {
  SubjectOfReport kind{};
  std::optional<int64_t> asked_pid;
  std::optional<std::vector<std::string>> command;
  std::optional<int64_t> trainer_pid;
  std::optional<std::string> trainer_comm;
};
constexpr void list_fields(auto&& field, Of<Subject> /*of*/) {
  field("kind", &Subject::kind);
  field("asked_pid", &Subject::asked_pid);
  field("command", &Subject::command, Holds::kArgument);
  field("trainer_pid", &Subject::trainer_pid);
  field("trainer_comm", &Subject::trainer_comm, Holds::kName);
}

/// Findings by severity.
struct Counts {
  uint64_t error = 0;
  uint64_t warning = 0;
  uint64_t info = 0;
};
constexpr void list_fields(auto&& field, Of<Counts> /*of*/) {
  field("error", &Counts::error);
  field("warning", &Counts::warning);
  field("info", &Counts::info);
}

/// The verdict.
struct Summary {
  OverallVerdict verdict = OverallVerdict::kIncomplete;
  std::string headline;
  Counts counts;
};
constexpr void list_fields(auto&& field, Of<Summary> /*of*/) {
  field("verdict", &Summary::verdict);
  field("headline", &Summary::headline, Holds::kSentence);
  field("counts", &Summary::counts);
}

/// A cause that was looked for, or a check of dlprobe gate.
struct Check {
  std::string id;
  std::optional<CodeText> code;
  std::string title;
  CheckStatus status{};
  std::optional<std::string> text;
  std::vector<std::string> findings;
  std::optional<double> duration_s;
};
constexpr void list_fields(auto&& field, Of<Check> /*of*/) {
  field("id", &Check::id, Holds::kWord);
  field("code", &Check::code);
  field("title", &Check::title, Holds::kWord);
  field("status", &Check::status);
  field("text", &Check::text, Holds::kSentence, "what was seen, or why it was not checked");
  field("findings", &Check::findings, Holds::kWord);
  field("duration_s", &Check::duration_s);
}

/// Versions of what the reference loader is made of.
struct Environment {
  std::optional<std::string> libtorch;
  std::optional<std::string> opencv;
  std::optional<std::string> device;
  std::optional<std::string> device_name;
};
constexpr void list_fields(auto&& field, Of<Environment> /*of*/) {
  field("libtorch", &Environment::libtorch, Holds::kWord);
  field("opencv", &Environment::opencv, Holds::kWord);
  field("device", &Environment::device, Holds::kWord);
  field("device_name", &Environment::device_name, Holds::kWord);
}

/// What was masked or replaced.
struct Redaction {
  std::string policy;
  std::string mask;
  std::optional<std::vector<RedactedKind>> kinds;
};
constexpr void list_fields(auto&& field, Of<Redaction> /*of*/) {
  field("policy", &Redaction::policy, Holds::kWord);
  field("mask", &Redaction::mask, Holds::kWord);
  field("kinds", &Redaction::kinds, "what was replaced by pseudonyms");
}

/// Something that could not be looked at, and why.
struct Gap {
  std::string what;
  std::string why;
  std::string effect;
  std::string remedy;
};
constexpr void list_fields(auto&& field, Of<Gap> /*of*/) {
  field("what", &Gap::what, Holds::kSentence, R"("descriptors of process 42")");
  field("why", &Gap::why, Holds::kSentence, "\"list /proc/42/fd: Permission denied (EACCES)\"");
  field("effect", &Gap::effect, Holds::kSentence, "what cannot be said for want of it");
  field("remedy", &Gap::remedy, Holds::kSentence, "what would enable it; may be empty");
}

/// What could not be seen.
struct Limitation {
  Gap gap;
  bool required = false;
};
constexpr void list_fields(auto&& field, Of<Limitation> /*of*/) {
  field("", &Limitation::gap);
  field("required", &Limitation::required, "for want of it the verdict could not be pass");
}

/// A piece of a sentence that is not dlprobe's own.
struct PastedName {
  PartKind kind{};
  std::string text;
};
constexpr void list_fields(auto&& field, Of<PastedName> /*of*/) {
  field("kind", &PastedName::kind, "what the piece names; \"text\": free text of somebody else");
  field("text", &PastedName::text, "as it stands in the sentences");
}

/// One examination.
struct Report {
  Constant<"dlprobe.report"> kind;
  VersionText schema_version;
  IdText report_id;
  Tool tool;
  Invocation invocation;
  Host host;
  Context context;
  Subject subject;
  Summary summary;
  std::vector<Check> checks;
  std::vector<Finding> findings;
  std::optional<std::vector<Finding>> suppressed;
  std::optional<std::vector<ReportTable>> tables;
  std::vector<Run> runs;
  std::optional<Tune> tune;
  std::optional<std::vector<Rank>> ranks;
  std::vector<Process> processes;
  WaitGraph wait_graph;
  Timeline timeline;
  Environment environment;
  Redaction redaction;
  std::vector<Limitation> limitations;
  std::optional<std::vector<PastedName>> names;
};
constexpr void list_fields(auto&& field, Of<Report> /*of*/) {
  field("kind", &Report::kind);
  field("schema_version", &Report::schema_version);
  field("report_id", &Report::report_id);
  field("tool", &Report::tool);
  field("invocation", &Report::invocation);
  field("host", &Report::host);
  field("context", &Report::context);
  field("subject", &Report::subject);
  field("summary", &Report::summary);
  field("checks", &Report::checks);
  field("findings", &Report::findings, "the root cause first, its consequences after it");
  field("suppressed", &Report::suppressed,
        "those that a configuration has taken out of the verdict, with `suppressed`");
  field("tables", &Report::tables,
        "The tables that belong to this verdict, beside those that each report has. A report of an "
        "older version does not say.");
  field("runs", &Report::runs);
  field("tune", &Report::tune,
        "of dlprobe tune alone: what was measured, and the smallest setting within 5 % of the "
        "fastest");
  field("ranks", &Report::ranks, "of distributed jobs, at the last look");
  field("processes", &Report::processes);
  field("wait_graph", &Report::wait_graph, "of the first run with a chain, else of the last one");
  field("timeline", &Report::timeline);
  field("environment", &Report::environment);
  field("redaction", &Report::redaction);
  field("limitations", &Report::limitations);
  field("names", &Report::names,
        "what stands in sentences without being dlprobe's own, each piece once, in the order of "
        "first use. A report of an older version does not say.");
}

}  // namespace dlprobe::report
