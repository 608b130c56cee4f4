#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/suggest.h"
#include "lib/model/finding.h"
#include "reports/model/report.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

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

int explain(const std::string& typed) {
  const FindingInfo* finding = find_finding(full_code(typed));
  if (finding == nullptr) {
    const auto known = codes_and_names();
    complain(fmt::format("there is no finding '{}'{}: dlprobe list shows all of them", typed,
                         did_you_mean(full_code(typed), known)));
    return kExitUsage;
  }
  return print(finding_page(finding->id));
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("explain", "what a finding means, how it is known, how to mend it");
  const auto name = std::make_shared<std::string>();
  command->add_option("finding", *name, "a code or a name, as in a report")
      ->check(offering(codes_and_names()))
      ->required();
  set_examples(*command,
               {{"explain DLP0102", ""}, {"explain shm-exhausted", ""}, {"explain 102", ""}});
  command->callback([name, &exit_status] { exit_status = explain(*name); });
}

}  // namespace dlprobe
