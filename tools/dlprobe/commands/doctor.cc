#include "reports/doctor.h"

#include <memory>

#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/config/own_environment.h"
#include "tools/dlprobe/doctor_look.h"
#include "tools/dlprobe/exit_status.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/output_options.h"

namespace dlprobe {
namespace {

int examine_dlprobe(const OutputOptions& options) {
  const auto outputs = planned_outputs(options, doctor_formats());
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto machine = live_machine();
  if (!machine) return complain_and_return(machine.error(), kExitIncomplete);
  const std::string loader = own_environment("DLPROBE_REFERENCE_LOADER").value_or("");
  const report::Doctor doctor = make_doctor(look_at_abilities(*machine, loader));
  return write_document(*outputs, options, doctor, exit_code_of_doctor(doctor));
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("doctor", "what dlprobe can and cannot do here, and what would help");
  const auto options = std::make_shared<OutputOptions>();
  add_format_options(*command, *options, doctor_formats());
  add_quiet_option(*command, *options);
  set_examples(*command, {{"doctor", "as this user; again with sudo"},
                          {"doctor -q", "in one line"},
                          {"doctor -f json", "for programs; attach it to a bug report"}});
  command->callback([options, &exit_status] { exit_status = examine_dlprobe(*options); });
}

}  // namespace dlprobe
