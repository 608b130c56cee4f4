#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/lower_case.h"
#include "lib/base/parse.h"
#include "lib/base/suggest.h"
#include "lib/model/finding.h"
#include "probes/probe.h"
#include "reports/asked_texts.h"
#include "reports/document/text_page.h"
#include "reports/pages.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

constexpr size_t kMostRows = 5;
constexpr size_t kMostBesideCommands = 3;  ///< of findings that have some of the words alone
constexpr double kClear = 1.5;             ///< so many times the next best score is one clear match

std::vector<std::string> codes_and_names() {
  std::vector<std::string> known;
  for (const FindingInfo& finding : all_findings()) {
    known.emplace_back(finding.code);
    known.emplace_back(finding.name);
  }
  return known;
}

// "dlp301" and "301" are DLP0301.
std::string full_code(std::string_view typed) {
  std::string_view digits = typed;
  if (digits.starts_with("DLP") || digits.starts_with("dlp")) digits.remove_prefix(3);
  const auto number = parse_int<unsigned>(digits);
  return number ? fmt::format("DLP{:04}", *number) : std::string(typed);
}

TextOptions options_of_stdout() {
  constexpr int kPageColumns = 80;
  return {.color = is_colorful(STDOUT_FILENO), .width = columns_at(STDOUT_FILENO, kPageColumns)};
}

int print_page(FindingCode code) {
  const auto marks = ::isatty(STDOUT_FILENO) == 1 ? PageMarks::kRemove : PageMarks::kKeep;
  return print(render_page(code, options_of_stdout(), marks));
}

// The command that looks for that cause, by what the probes say of themselves.
std::string command_for(FindingCode code) {
  for (const Probe* probe : all_probes()) {
    if (std::ranges::count(probe->causes, code, &Cause::code) == 0) continue;
    if (probe->use == ProbeUse::kEnds) return "dlprobe run -- COMMAND";
    if (probe->use != ProbeUse::kSubject) return fmt::format("dlprobe {}", probe->name);
    const bool is_of_hangs = probe->needs_snapshots && !probe->tries_start_methods;
    return is_of_hangs ? "dlprobe attach PID" : fmt::format("dlprobe {} -- COMMAND", probe->name);
  }
  return "dlprobe report merge REPORT...";
}

int print_rows(const std::vector<FindingCode>& codes,
               const std::vector<CommandRow>& commands = {}) {
  TextPage page(options_of_stdout());
  for (const CommandRow& row : commands) {
    page.paragraph(row.what, "", document::Mark::kStrong);
    page.paragraph("    $ ", row.command);
  }
  for (const FindingCode code : codes) {
    const FindingInfo& finding = info(code);
    page.paragraph(fmt::format("{} {}", finding.code, finding.name), "", document::Mark::kStrong);
    page.paragraph("    ", finding.title);
    page.paragraph("    $ ", command_for(code));
  }
  if (!codes.empty()) {
    page.blank_line();
    page.paragraph("", "dlprobe explain CODE prints the page of one");
  }
  return print(std::move(page).take());
}

int explain(const std::string& typed) {
  const FindingInfo* finding = find_finding(full_code(typed));
  if (finding != nullptr) return print_page(finding->id);
  const Probe* probe = find_probe(lower_case(typed));
  std::vector<FindingCode> codes;
  if (probe != nullptr)
    std::ranges::transform(probe->causes, std::back_inserter(codes), &Cause::code);
  if (!codes.empty()) return print_rows(codes);
  const std::vector<std::string> known = codes_and_names();
  const std::string near = did_you_mean(full_code(typed), known);
  if (!near.empty() && asked_codes(typed).empty()) {
    complain(
        fmt::format("there is no finding '{}'{}: dlprobe list shows all of them", typed, near));
    return kExitUsage;
  }
  const std::vector<PageMatch> matches = find_pages(typed);
  const std::vector<CommandRow> commands = find_commands(typed);
  if (matches.empty() && commands.empty()) {
    complain(
        fmt::format("nothing is known of '{}': give the error's own words without paths and "
                    "numbers, a probe (shm, fd, memory, deadlock), or a code (dlprobe list shows "
                    "all); dlprobe run -- COMMAND finds the cause of any failure it sees",
                    typed));
    return kExitUsage;
  }
  const bool is_clear =
      matches.size() == 1 || (!matches.empty() && matches[0].score >= kClear * matches[1].score);
  if (is_clear && matches.front().has_text) return print_page(matches.front().code);
  const bool is_question = !commands.empty() && !matches.empty() && !matches.front().has_text;
  const size_t most = is_question ? kMostBesideCommands : kMostRows;
  for (size_t i = 0; i < matches.size() && i < most; ++i)
    codes.push_back(matches[i].code);
  return print_rows(codes, commands);
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("explain", "what a finding or an error text means, how to mend it");
  const auto words = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("finding", *words,
                   "a code or a name, as in a report; an error text or words of it; a probe")
      ->check(offering(codes_and_names()))
      ->type_name("FINDING|TEXT")
      ->required();
  set_examples(*command, {{"explain DLP0102", "or: explain shm-exhausted, explain 102"},
                          {"explain received 0 items of ancdata", "what an error may mean"},
                          {"explain shm", "the findings of a probe"}});
  command->callback(
      [words, &exit_status] { exit_status = explain(fmt::format("{}", fmt::join(*words, " "))); });
}

}  // namespace dlprobe
