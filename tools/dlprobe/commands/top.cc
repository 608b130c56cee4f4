#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lib/session/target.h"
#include "probes/probe.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/job_choice.h"
#include "tools/dlprobe/options/watch_options.h"
#include "tools/dlprobe/probe_judge.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/top/frame.h"
#include "tools/dlprobe/top/job_picture.h"

namespace dlprobe {
namespace {

constexpr int kColumnsWithoutTerminal = 80;

struct TopOptions {
  std::optional<std::string> target;  ///< a pid or a name, as typed; nothing: not given
  bool once = false;
  SamplingOptions sampling = {.interval = "1s", .record_path = {}};
};

Expected<ExamineRequest> top_request(const TopOptions& options, const Session& session) {
  ExamineRequest request = request_for(probes::attach::kProbe, session.arguments);
  DLP_CHECK(put_sampling_options(options.sampling, request));
  // Nothing is stopped for a mere look.
  request.looks.snapshots = false;
  DLP_TRY(const int32_t pid, choose_process(options.target));
  request.subject = PidSubject{.pid = pid};
  return request;
}

int refuse_top(const Refusal& refusal) {
  return complain_and_return(refusal.error, exit_code_of(refusal.kind));
}

// Rates are those of a second.
int print_once(ExamineRequest request) {
  request.interval = std::chrono::milliseconds(250);
  request.watch_for = std::chrono::milliseconds(1300);
  const Examination examination =
      on_this_machine(probes::attach::kProbe, ShowProgress::kNo,
                      [&](const Surroundings& around) { return examine(request, around); });
  if (examination.refusal) return refuse_top(*examination.refusal);
  if (examination.interrupted_by != 0) return 128 + examination.interrupted_by;
  JobPicture job;
  job.take(examination.recording.header.host, examination.recording.runs.back());
  const auto columns = static_cast<size_t>(columns_at(STDOUT_FILENO, kColumnsWithoutTerminal));
  std::string text;
  for (const FrameLine& line : top_frame(job.picture(), {.columns = columns}))
    text += line.text + "\n";
  return print(text);
}

int run_top(const TopOptions& options, const Session& session) {
  auto request = top_request(options, session);
  if (!request) {
    return complain_and_return(request.error(),
                               exit_code_of(kind_of_refused_target(request.error())));
  }
  return print_once(*std::move(request));
}

}  // namespace

void add_top_command(CLI::App& app, const Session& session, int& exit_status) {
  auto* command = app.add_subcommand("top", "watch a running job live: its ranks and workers");
  const auto options = std::make_shared<TopOptions>();
  command
      ->add_option("pid", options->target,
                   "the trainer, any of its workers, a launcher or a rank of a distributed job; or "
                   "its script, program or job id; without: the job of this machine")
      ->type_name("PID|NAME");
  command->add_flag("--once", options->once, "print one frame as text; needs no terminal");
  add_sampling_options(*command, options->sampling, "Watch");
  set_examples(*command, {{"top", "the job of this machine; h shows the keys"},
                          {"top 4711 --interval 100ms", "ten looks a second"},
                          {"top 4711 --once", "one frame, for a script or a log"}});
  command->callback(
      [options, &session, &exit_status] { exit_status = run_top(*options, session); });
}

}  // namespace dlprobe
