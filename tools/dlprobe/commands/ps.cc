#include <memory>

#include "lib/session/jobs.h"
#include "reports/jobs.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

int print_jobs(const OutputOptions& options) {
  const auto outputs = planned_outputs(options, jobs_formats());
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto machine = live_machine();
  if (!machine) return complain_and_return(machine.error(), kExitIncomplete);
  const auto jobs = find_jobs(*machine);
  if (!jobs) return complain_and_return(jobs.error(), kExitIncomplete);
  // That there is none can only be said by who may see all.
  const bool is_sure = !jobs->jobs.empty() || jobs->unseen == 0;
  return write_document(*outputs, options, make_jobs(kVersion, *jobs),
                        is_sure ? kExitPass : kExitIncomplete);
}

}  // namespace

void add_ps_command(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("ps", "the jobs of this machine that load data by workers");
  const auto options = std::make_shared<OutputOptions>();
  add_format_options(*command, *options, jobs_formats());
  set_examples(*command, {{"ps", "pid, user, age, ranks, workers, /dev/shm, state, command"},
                          {"ps -f json", "for programs"}});
  command->callback([options, &exit_status] { exit_status = print_jobs(*options); });
}

}  // namespace dlprobe
