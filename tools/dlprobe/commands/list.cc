#include <fmt/core.h>

#include "lib/model/finding.h"
#include "probes/probe.h"
#include "tools/dlprobe/command.h"

namespace dlprobe {

void add_list_command(CLI::App& app, int& /*exit_status*/) {
  app.add_subcommand("list", "every probe and every finding")->callback([] {
    fmt::print("Probes\n");
    for (const Probe* probe : all_probes())
      fmt::print("  {:<16} {}\n", probe->name, probe->summary);
    fmt::print("\nFindings (dlprobe explain CODE tells more)\n");
    for (const FindingInfo& finding : all_findings()) {
      fmt::print("  {} {:<24} {:<8} {}\n", finding.code, finding.name, to_string(finding.severity),
                 finding.title);
    }
  });
}

}  // namespace dlprobe
