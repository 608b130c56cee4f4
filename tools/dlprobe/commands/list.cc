#include <memory>
#include <vector>

#include "probes/probe.h"
#include "reports/catalog.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

int list(const OutputOptions& options) {
  const auto outputs = planned_outputs(options, catalog_formats());
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  std::vector<report::CatalogProbe> probes;
  for (const Probe* probe : all_probes())
    if (probe->use == ProbeUse::kSubject)
      probes.push_back({std::string(probe->name), std::string(probe->summary)});
  return write_document(*outputs, options, make_catalog(kVersion, probes), kExitPass);
}

}  // namespace

void add_list_command(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("list", "every probe and every finding");
  const auto options = std::make_shared<OutputOptions>();
  add_format_options(*command, *options, catalog_formats());
  set_examples(*command, {{"list", "codes, names, severities"}, {"list -f json", "for programs"}});
  command->callback([options, &exit_status] { exit_status = list(*options); });
}

}  // namespace dlprobe
