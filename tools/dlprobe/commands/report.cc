#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/host_list.h"
#include "lib/base/secrets.h"
#include "lib/os/atomic_file.h"
#include "lib/os/clock.h"
#include "lib/session/step_progress.h"
#include "probes/deadlock/judge_ranks.h"
#include "reports/merge.h"
#include "reports/redact/redact.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/process/terminal_notices.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

// Above what any report of ours takes.
constexpr uint64_t kLargestReport = uint64_t{64} << 20;

Expected<std::string> read_input(const std::string& path) {
  return read_whole_file(path == "-" ? "/dev/stdin" : path, kLargestReport);
}

Expected<AnyReport> load_report(const std::string& path) {
  DLP_TRY(const std::string text, read_input(path));
  auto report = parse_report(text);
  if (!report) report.error().context = path + ": " + report.error().context;
  return report;
}

struct RenderOptions {
  std::string path;
  OutputOptions output;
};

int render(const RenderOptions& options) {
  const auto outputs = planned_outputs(options.output);
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto report = load_report(options.path);
  if (!report) return complain_and_return(report.error(), kExitUsage);
  return write_document(*outputs, options.output, *report, kExitPass);
}

struct MergeCommand {
  std::vector<std::string> paths;
  std::string expect_hosts;
  OutputOptions output;
  std::vector<std::string> arguments;
};

// The reports below a folder: every *.json and *.jsonl in it, in the order of their names.
Expected<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    DLP_TRY(const auto found, list_folder(path));
    if (!found) {
      files.push_back(path);
      continue;
    }
    std::ranges::copy_if(*found, std::back_inserter(files), [](const std::string& name) {
      std::error_code ignored;
      const bool is_report = name.ends_with(".json") || name.ends_with(".jsonl");
      return is_report && std::filesystem::is_regular_file(name, ignored);
    });
  }
  return files;
}

// "n7: {...}", as pdsh and clush put the host before each line.
std::string_view without_prefix(std::string_view line) {
  const size_t brace = line.find('{');
  const size_t colon = line.find(": ");
  return brace != std::string_view::npos && colon != std::string_view::npos && colon < brace
             ? line.substr(brace)
             : line;
}

void add_text(ReportMerger& merger, const std::string& source, std::string_view text) {
  if (auto whole = parse_report(text, WithStacks::kNo)) return merger.add(source, *whole);
  // Else one report on each line.
  size_t number = 0;
  size_t good = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = without_prefix(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    ++number;
    if (!line.contains('{')) continue;
    const auto report = parse_report(line, WithStacks::kNo);
    if (report) {
      ++good;
      merger.add(fmt::format("{}:{}", source, number), *report);
    } else if (good > 0) {
      merger.add_damaged(fmt::format("{}:{}", source, number), report.error().context);
    }
  }
  if (good > 0) return;
  const auto whole = parse_report(text);
  merger.add_damaged(source, text.empty() ? "it is empty" : whole.error().context);
}

Expected<std::vector<std::string>> expected_hosts(const std::string& typed, bool is_given) {
  if (typed.empty() && is_given) {
    return failure(ErrorCode::kInvalid, "--expect-hosts names no host (an empty variable?)");
  }
  if (typed.empty()) return std::vector<std::string>();
  if (typed == "auto") {
    const auto list = own_environment("SLURM_JOB_NODELIST");
    if (!list) {
      return failure(ErrorCode::kInvalid,
                     "--expect-hosts auto: SLURM_JOB_NODELIST is not set: name the hosts, or give "
                     "@FILE with one host per line");
    }
    return expand_hosts(*list);
  }
  if (!typed.starts_with('@')) return expand_hosts(typed);
  DLP_TRY(const std::string text, read_whole_file(typed.substr(1), kLargestReport));
  return expand_hosts(text);
}

int merge(const CLI::App& command, const MergeCommand& typed) {
  const auto refuse = [&typed](const std::string& why) {
    return refuse_in_style(typed.output, why, kExitUsage);
  };
  const auto outputs = planned_outputs(typed.output);
  if (!outputs) return refuse(to_string(outputs.error()));
  auto hosts = expected_hosts(typed.expect_hosts, command.count("--expect-hosts") > 0);
  if (!hosts) return refuse(to_string(hosts.error()));
  const auto files = files_of(typed.paths);
  if (!files) return refuse(to_string(files.error()));
  if (files->empty()) return refuse("nothing to merge: no *.json or *.jsonl there");
  ReportMerger merger({.expected_hosts = std::move(*hosts),
                       .fail_on = report_context(typed.output).fail_on,
                       .policy = report_context(typed.output).policy,
                       .argv = mask_secrets(typed.arguments),
                       .version = std::string(kVersion),
                       .judge_ranks = probes::deadlock::judge_ranks});
  TerminalNotices notices(typed.output.quiet ? ShowProgress::kNo : ShowProgress::kYes);
  const SystemClock clock;
  StepProgress progress(notices, clock,
                        {.name = "merge", .noun = "report", .steps = files->size()});
  for (const std::string& file : *files) {
    progress.begin(file);
    const auto text = read_input(file);
    if (text) {
      add_text(merger, file, *text);
    } else {
      merger.add_damaged(file, to_string(text.error()));
    }
  }
  const AnyReport merged = std::move(merger).finish();
  notices.clear_progress();
  const int code = merged.report.invocation.exit_code.value;
  return exit_in_style(typed.output, write_document(*outputs, typed.output, merged, code),
                       merged.report.summary.verdict);
}

struct RedactCommand {
  std::vector<std::string> paths;
  std::string output;
  std::string map;
  std::vector<std::string> kinds = {std::begin(kRedactable), std::end(kRedactable)};
};

// Where the redacted report of `path` goes: several go to a folder, under their own names; empty is
// stdout.
Expected<std::string> redacted_path(const RedactCommand& typed, const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(typed.output, error)) {
    return (std::filesystem::path(typed.output) / std::filesystem::path(path).filename()).string();
  }
  if (typed.paths.size() == 1) return typed.output;
  const std::string what = typed.output.empty() ? "-o FOLDER" : "-o " + typed.output;
  return failure(ErrorCode::kInvalid, what + ": several reports need a folder");
}

// What an earlier redaction called things by, so that the reports join.
Status use_earlier_map(const std::string& path, Redactor& redactor) {
  if (path.empty()) return {};
  DLP_CHECK(check_writable(path));
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  DLP_TRY(const std::string text, read_whole_file(path, kLargestReport));
  Status status = redactor.use_map(text);
  if (!status) status.error().context = path + ": " + status.error().context;
  return status;
}

using PathAndText = std::pair<std::string, std::string>;

Expected<std::vector<PathAndText>> redact_all(const RedactCommand& typed, Redactor& redactor) {
  std::vector<PathAndText> texts;
  for (const std::string& path : typed.paths) {
    DLP_TRY(std::string target, redacted_path(typed, path));
    if (!target.empty()) DLP_CHECK(check_writable(target));
    DLP_TRY(const AnyReport report, load_report(path));
    texts.emplace_back(std::move(target), render_json(redactor.redact(report)));
  }
  return texts;
}

int redact(const RedactCommand& typed) {
  Redactor redactor(std::set<std::string>(typed.kinds.begin(), typed.kinds.end()));
  if (!typed.map.empty()) redactor.keeps_names();
  if (const Status used = use_earlier_map(typed.map, redactor); !used)
    return complain_and_return(used.error(), kExitUsage);
  // All are read and redacted before the first is written.
  auto texts = redact_all(typed, redactor);
  if (!texts) return complain_and_return(texts.error(), kExitUsage);
  if (!typed.map.empty()) texts->emplace_back(typed.map, redactor.to_map());
  for (const auto& [path, text] : *texts) {
    if (path.empty()) {
      if (const int code = print(text); code != kExitPass) return code;
      continue;
    }
    if (auto status = write_file_atomically(path, text); !status)
      return complain_and_return(status.error(), kExitIncomplete);
  }
  return kExitPass;
}

}  // namespace

void add_report_command(CLI::App& app, const Session& session, int& exit_status) {
  auto* command = app.add_subcommand("report", "convert a report, or merge those of many nodes");
  set_examples(*command, {{"report render incident.json -f html=incident.html", ""},
                          {"report merge out/*.json", ""},
                          {"report redact incident.json -o for-vendor.json", ""}});
  command->require_subcommand(1);

  auto* rendering = command->add_subcommand("render", "a saved report in another format");
  const auto rendered = std::make_shared<RenderOptions>();
  rendering->add_option("report", rendered->path, "a report that -f json wrote; - is stdin")
      ->required()
      ->type_name("FILE");
  add_report_formats(*rendering, rendered->output);
  set_examples(*rendering, {{"report render incident.json", "as text"},
                            {"report render incident.json -f html=incident.html", "as a page"}});
  rendering->callback([rendered, &exit_status] { exit_status = render(*rendered); });

  auto* merging = command->add_subcommand("merge", "one verdict from many nodes' reports");
  const auto merged = std::make_shared<MergeCommand>();
  merged->arguments = session.arguments;
  merging
      ->add_option("reports", merged->paths,
                   "reports (json, or jsonl with one per line), folders of them, - for stdin")
      ->required()
      ->type_name("FILE");
  merging
      ->add_option("--expect-hosts", merged->expect_hosts,
                   "nodes that must report: n[1-4,7],gpu1; @FILE; auto: those of the "
                   "Slurm job")
      ->type_name("HOSTS")
      ->group("Output");
  add_output_options(*merging, merged->output);
  add_exit_style(*merging, merged->output);
  set_examples(*merging,
               {{"report merge out/*.json", "one verdict from many nodes"},
                {"report merge out --expect-hosts n[1-9]", "which nodes did not report?"}});
  merging->callback([merging, merged, &exit_status] { exit_status = merge(*merging, *merged); });

  auto* redacting =
      command->add_subcommand("redact", "pseudonyms for hosts, users, paths and addresses");
  const auto redacted = std::make_shared<RedactCommand>();
  redacting->add_option("reports", redacted->paths, "reports that -f json wrote")
      ->required()
      ->type_name("FILE");
  redacting
      ->add_option("-o,--output", redacted->output,
                   "write to PATH instead of stdout; a folder for several reports")
      ->type_name("PATH");
  redacting->add_option("--redact", redacted->kinds, "what to replace")
      ->delimiter(',')
      ->check(one_of(std::vector<std::string>(std::begin(kRedactable), std::end(kRedactable))))
      ->type_name("KIND,...")
      ->default_str("hosts,users,paths,addresses");
  redacting
      ->add_option("--map", redacted->map,
                   "keep the pseudonyms in FILE (0600), so that all reports use the same names")
      ->type_name("FILE");
  set_examples(*redacting, {{"report redact incident.json -o for-vendor.json", "to hand over"},
                            {"report redact out/*.json -o safe/ --map names.json", "same names"}});
  redacting->callback([redacted, &exit_status] { exit_status = redact(*redacted); });
}

}  // namespace dlprobe
