#include "reports/model/stacks.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "lib/collect/snapshot/snapshot.h"
#include "lib/session/target.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/look_at_stacks.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/options/watch_options.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

struct StacksOptions {
  std::string pid;
  bool only = false;
  bool ranks = false;
  bool python = false;
  bool native = false;
  PauseOptions pause;
  OutputOptions output;
};

FrameChoice choice_of(const StacksOptions& options) {
  if (options.python == options.native) return FrameChoice::kAll;
  return options.python ? FrameChoice::kPython : FrameChoice::kNative;
}

// The main threads of trainers alone: where each rank of a job is.
void keep_ranks(StacksLook& look) {
  const auto is_rank = [&](const ProcessSnapshot& process) {
    return std::ranges::any_of(look.processes, [&](const ProcessInfo& info) {
      return info.key == process.key && info.role == Role::kTrainer;
    });
  };
  std::erase_if(look.snapshot.processes,
                [&](const ProcessSnapshot& process) { return !is_rank(process); });
  for (ProcessSnapshot& process : look.snapshot.processes) {
    std::erase_if(process.threads,
                  [&](const ThreadSnapshot& thread) { return thread.tid != process.key.pid; });
  }
}

bool has_any_stack(const StacksLook& look) {
  for (const ProcessSnapshot& process : look.snapshot.processes) {
    for (const ThreadSnapshot& thread : process.threads) {
      if (!thread.stack.empty()) return true;
    }
  }
  return false;
}

int print_stacks(const StacksOptions& options) {
  const auto pid = parse_pid(options.pid);
  if (!pid) return complain_and_return(pid.error(), kExitUsage);
  const auto pause = snapshot_options(options.pause);
  if (!pause) return complain_and_return(pause.error(), kExitUsage);
  const auto outputs = planned_outputs(options.output, stacks_formats());
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto machine = live_machine();
  if (!machine) return complain_and_return(machine.error(), kExitIncomplete);
  const auto target = find_target(*machine, *pid, options.only ? Climb::kStay : Climb::kToTrainer);
  if (!target) return refuse_target(target.error());
  if (!target->notice.empty()) complain(target->notice);
  StacksLook look = look_at_stacks(*machine, target->key,
                                   options.only ? StacksOf::kProcess : StacksOf::kTree, *pause);
  look.asked_pid = *pid;
  if (options.ranks) keep_ranks(look);
  return write_document(*outputs, options.output, make_stacks(look, choice_of(options)),
                        has_any_stack(look) ? kExitPass : kExitIncomplete);
}

}  // namespace

void add_stacks_command(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("stacks", "Python and native stacks of a process tree, without a verdict");
  const auto options = std::make_shared<StacksOptions>();
  command->add_option("pid", options->pid, "the trainer or any of its workers")
      ->type_name("PID")
      ->required();
  constexpr const char* kGroup = "Stacks";
  command->add_flag("--only", options->only, "only that process, not its tree")->group(kGroup);
  command
      ->add_flag("--ranks", options->ranks,
                 "where each rank of a distributed job is: only main threads of trainers, ranks at "
                 "the same place once")
      ->group(kGroup);
  command->add_flag("--python", options->python, "only Python frames")->group(kGroup);
  command->add_flag("--native", options->native, "only native frames")->group(kGroup);
  add_pause_options(*command, options->pause, kGroup);
  add_format_options(*command, options->output, stacks_formats());
  add_verbose_option(*command, options->output);
  set_examples(*command, {{"stacks 4711", "all processes of the job"},
                          {"stacks 4711 --ranks --python", "the ranks of a job, side by side"},
                          {"stacks 4711 --only --python", "one process, Python frames"},
                          {"stacks 4711 --json", "everything, for programs"}});
  command->callback([options, &exit_status] { exit_status = print_stacks(*options); });
}

}  // namespace dlprobe
