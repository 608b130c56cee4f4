#include <memory>
#include <optional>
#include <string>

#include "lib/session/target.h"
#include "probes/probe.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/job_choice.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/options/watch_options.h"
#include "tools/dlprobe/probe_judge.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

struct AttachOptions {
  std::optional<std::string> target;  ///< a pid or a name, as typed; nothing: not given
  bool job = false;
  WatchOptions watch;
  OutputOptions output;
};

Expected<int32_t> pid_of(const AttachOptions& options) {
  if (options.job && options.target)
    return failure(ErrorCode::kInvalid, "--job finds the process by itself: give no PID");
  if (!options.job) return choose_process(options.target);
  DLP_TRY(const Machine machine, live_machine());
  return find_rank_of_own_job(machine, own_environment);
}

Expected<ExamineRequest> make_request(const AttachOptions& options, const Session& session) {
  if (session.child_command_given) {
    return failure(ErrorCode::kInvalid,
                   "attach looks at a process that runs already; a command to "
                   "start goes with: dlprobe deadlock -- COMMAND");
  }
  ExamineRequest request = request_for(probes::attach::kProbe, session.arguments);
  DLP_TRY(const int32_t pid, pid_of(options));
  request.subject = PidSubject{.pid = pid};
  DLP_CHECK(put_watch_options(options.watch, probes::attach::kProbe, request));
  return request;
}

int attach(const AttachOptions& options, const Session& session) {
  const auto outputs = planned_outputs(options.output);
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto request = make_request(options, session);
  if (!request) {
    return refuse_target(request.error());
  }
  const auto progress = options.output.quiet ? ShowProgress::kNo : ShowProgress::kYes;
  return examine_and_conclude(*request, probes::attach::kProbe, progress, *outputs, options.output);
}

}  // namespace

void add_attach_command(CLI::App& app, const Session& session, int& exit_status) {
  auto* command = app.add_subcommand("attach", std::string(probes::attach::kProbe.summary));
  const auto options = std::make_shared<AttachOptions>();
  command
      ->add_option("pid", options->target,
                   "the trainer, any of its workers, a launcher or a rank of a distributed job; or "
                   "its script, program or job id; without: the job of this machine")
      ->type_name("PID|NAME");
  command->add_flag("--job", options->job,
                    "the ranks on this machine of the scheduler's job that this is a step of");
  add_watch_options(*command, options->watch, probes::attach::kProbe, "Watch");
  add_output_options(*command, options->output);
  set_examples(*command, {{"attach",
                           "the job of this machine: watch it for 3 s, then say what is "
                           "wrong"},
                          {"attach train.py", "by its script; or by its pid: attach 4711"},
                          {"attach 4711 --for 0s", "one look, at once"},
                          {"attach --job -f json=%h.json", "with srun --overlap: on each node"},
                          {"attach 4711 -f html=hang.html", "a page to hand over"}});
  command->callback([options, &session, &exit_status] { exit_status = attach(*options, session); });
}

}  // namespace dlprobe
