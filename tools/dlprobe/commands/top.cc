#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/units.h"
#include "lib/session/examination.h"
#include "lib/session/process_control.h"
#include "lib/session/target.h"
#include "probes/probe.h"
#include "reports/document/render.h"
#include "reports/model/examination.h"
#include "reports/model/stacks.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/job_choice.h"
#include "tools/dlprobe/look_at_stacks.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/options/watch_options.h"
#include "tools/dlprobe/probe_judge.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/top/frame.h"
#include "tools/dlprobe/top/job_picture.h"
#include "tools/dlprobe/top/live_view.h"
#include "tools/dlprobe/top/screen.h"
#include "tools/dlprobe/version.h"

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

int examination_code(const Examination& examination) {
  if (examination.refusal) {
    return refuse(*examination.refusal);
  }
  if (examination.interrupted_by == SIGINT) end_as_interrupted();
  if (examination.interrupted_by != 0) return 128 + examination.interrupted_by;
  return examination.recording_cut ? exit_code_without_output(kExitPass) : kExitPass;
}

// Rates are those of a second.
int print_once(ExamineRequest request) {
  request.interval = std::chrono::milliseconds(250);
  request.watch_for = std::chrono::milliseconds(1300);
  const Examination examination =
      on_this_machine(probes::attach::kProbe, ShowProgress::kNo,
                      [&](const Surroundings& around) { return examine(request, around); });
  if (examination.refusal || examination.interrupted_by != 0) return examination_code(examination);
  JobPicture job;
  job.take(examination.recording.header.host, examination.recording.runs.back());
  const auto columns = static_cast<size_t>(columns_at(STDOUT_FILENO, kColumnsWithoutTerminal));
  std::string text;
  for (const FrameLine& line : top_frame(job.picture(), {.columns = columns, .is_brief = true}))
    text += line.text + "\n";
  const int code = print(text);
  return code == kExitPass ? examination_code(examination) : code;
}

Expected<ScreenText> stacks_text(const Machine& machine, const TopProcess& process,
                                 size_t columns) {
  const StacksLook look =
      look_at_stacks(machine, process.key, StacksOf::kProcess, SnapshotOptions{});
  std::string text = render_stacks(make_stacks(look, FrameChoice::kAll),
                                   {.color = false, .width = static_cast<int>(columns)});
  return ScreenText{.title = fmt::format("stacks of process {}", process.key.pid),
                    .text = std::move(text)};
}

// "dlprobe-4711-20261125T134501Z.html"
std::string report_path(const Recording& recording, const Clock& clock) {
  const auto& root = recording.runs.back().begin.root;
  const auto seconds = static_cast<std::time_t>(clock.realtime_ns() / kSecond);
  return fmt::format("dlprobe-{}-{:%Y%m%dT%H%M%SZ}.html", root ? root->pid : 0,
                     fmt::gmtime(seconds));
}

Expected<ScreenText> report_text(const Machine& machine, const Recording& recording,
                                 size_t columns) {
  const Probe& probe = probes::attach::kProbe;
  const std::string path = report_path(recording, *machine.clock);
  const OutputOptions options{.formats = {"html"}, .output_path = path};
  DLP_TRY(const std::vector<Output> outputs, planned_outputs(options));
  const AnyReport report =
      examination_report(recording, probe.examine(recording), report_context(options));
  DLP_CHECK(write_outputs(outputs, options, report));
  return ScreenText{
      .title = "report: " + path,
      .text = render_text(report, {.color = false, .width = static_cast<int>(columns)})};
}

// Until a key or a signal: what a job was doing last is worth to be read. Which signal; 0: a key.
int stay(LiveView& view, const Recording& recording, SystemControl& control,
         const HeldSignals& signals) {
  while (!view.has_enough()) {
    view.take(recording);
    if (view.has_enough()) break;
    const std::array descriptors = {signals.descriptor(), view.descriptor()};
    control.wait(descriptors, kSecond);
    while (const auto signal = signals.next()) {
      if (signal->ssi_signo != SIGCHLD) return static_cast<int>(signal->ssi_signo);
    }
  }
  return 0;
}

// The examination ends with a key, a signal or the job.
Expected<Examination> watch_live(ExamineRequest request) {
  DLP_TRY(const Machine machine, live_machine());
  SystemControl control;
  // Before the screen: a signal in between would leave the terminal as it is.
  const auto signals = control.hold_signals();
  DLP_TRY(const std::unique_ptr<Screen> screen, open_terminal());
  LiveView view(
      *screen,
      {.stacks = [&](const TopProcess& process,
                     size_t columns) { return stacks_text(machine, process, columns); },
       .report = [&](const Recording& recording,
                     size_t columns) { return report_text(machine, recording, columns); }});
  std::get<PidSubject>(request.subject).onlooker = &view;
  const ProbeJudge judge(probes::attach::kProbe);
  Examination examination = examine(request, {.machine = machine,
                                              .control = control,
                                              .judge = judge,
                                              .notices = view,
                                              .environment = own_environment,
                                              .version = std::string(kVersion)});
  if (!examination.refusal && examination.interrupted_by == 0)
    examination.interrupted_by = stay(view, examination.recording, control, *signals);
  return examination;
}

int show_live(ExamineRequest request) {
  // Wrong pids are told before the screen is.
  const auto machine = live_machine();
  if (!machine) return complain_and_return(machine.error(), kExitIncomplete);
  const int32_t pid = std::get<PidSubject>(request.subject).pid;
  if (const auto target = find_target(*machine, pid); !target) {
    return refuse_target(target.error());
  }
  const auto examination = watch_live(std::move(request));
  if (!examination) return complain_and_return(examination.error(), kExitUsage);
  return examination_code(*examination);
}

int run_top(const TopOptions& options, const Session& session) {
  auto request = top_request(options, session);
  if (!request) {
    return refuse_target(request.error());
  }
  return options.once ? print_once(*std::move(request)) : show_live(*std::move(request));
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
