#include <cstdio>
#include <memory>
#include <string>

#include "lib/model/finding.h"
#include "reports/report.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/exit_status.h"

namespace dlprobe {
namespace {

int explain(const std::string& code_or_name) {
  const FindingInfo* finding = find_finding(code_or_name);
  if (finding == nullptr) {
    complain("there is no finding '" + code_or_name + "': dlprobe list shows all of them");
    return kExitUsage;
  }
  const std::string_view page = finding_page(finding->id);
  std::fwrite(page.data(), 1, page.size(), stdout);
  return kExitPass;
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("explain", "what a finding means, how it is known, how to mend it");
  const auto name = std::make_shared<std::string>();
  command->add_option("finding", *name, "a code or a name: DLP0101, shm-too-small")->required();
  command->callback([name, &exit_status] { exit_status = explain(*name); });
}

}  // namespace dlprobe
