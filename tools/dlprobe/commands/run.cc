#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/run_words.h"
#include "lib/subject/python_command.h"
#include "probes/confirm/probe.h"
#include "probes/probe.h"
#include "reports/model/examination.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/on_failure.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/options/launch_options.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/options/python_options.h"
#include "tools/dlprobe/options/watch_options.h"
#include "tools/dlprobe/probe_judge.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

constexpr std::chrono::seconds kShortestHang{1};

struct RunOptions {
  std::string on_hang = "report";
  std::string hang_after = "5m";
  std::string on_failure;
  LaunchOptions launch;
  PythonOptions python;
  std::string confirm;  ///< as typed; empty: not given
  WatchOptions watch;
  OutputOptions output;
  bool fail_on_given = false;
};

// The command's own code as a shell has it; 125 where dlprobe lost sight of it.
int exit_code_of_command(const Examination& examination) {
  if (!examination.wait_status) return kExitLostCommand;
  const int status = *examination.wait_status;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool is_ended_by(const Examination& examination, int signal) {
  const std::optional<int> status = examination.wait_status;
  return status && WIFSIGNALED(*status) && WTERMSIG(*status) == signal;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "was " + describe_exit(status).plain();
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

/// What is told of one command: nothing where nothing is wrong.
class RunReporter {
 public:
  RunReporter(const RunOptions& options, std::vector<Output> outputs)
      : options_(options), outputs_(std::move(outputs)) {}

  /// The command is found to hang; it still lives.
  void tell_hang(const Recording& recording) {
    Recording so_far = recording;
    Run& run = so_far.runs.back();
    // What moves in vain was not looked at.
    const BootNs at = run.snapshots.empty() ? run.samples.back().at : run.snapshots.back().at;
    run.end =
        RunEnd{.at = at,
               .reason = RunEndReason::kTimeUp,
               .text = options_.on_hang == "kill" ? "it hangs; dlprobe ended it (--on-hang kill)"
                                                  : "it hangs, and is still running"};
    const Verdict verdict = probes::run::kProbe.examine(so_far);
    const report::Report report =
        examination_report(so_far, verdict, report_context(options_.output));
    hang_ = verdict.findings;
    complain("the command hangs: it has got no further for " + options_.hang_after);
    write(report, true);
    told_ = report.summary.headline;
  }

  /// It moves again after that: a hang no more, but worth a note.
  void tell_moving_again(std::chrono::nanoseconds stood) {
    const Message words = "it went on after " + format_duration(stood);
    complain("the command moves again: " + words.plain());
    told_.clear();
    for (Finding& finding : std::exchange(hang_, {})) {
      if (finding.severity == Severity::kInfo) continue;
      finding.severity = Severity::kInfo;
      finding.message += "; " + words;
      past_.push_back(std::move(finding));
    }
  }

  /// Returns dlprobe's exit code.
  int conclude(const Examination& examination) {
    Verdict verdict =
        probes::confirm::with_confirmations(probes::run::kProbe.examine(examination.recording),
                                            examination.recording, probes::run::kProbe);
    std::ranges::move(past_, std::back_inserter(verdict.findings));
    const report::Report report =
        examination_report(examination.recording, verdict, report_context(options_.output));
    const int code = exit_code_of_command(examination);
    const bool wrong = std::ranges::any_of(verdict.findings, is_wrong);
    const bool has_news =
        report.summary.headline != told_ || !examination.recording.attempts.empty();
    write(report, wrong && has_news);
    const auto& end = examination.recording.runs.back().end;
    const std::string why_ended =
        options_.on_hang == "kill" && end ? end->text.plain() : std::string();
    if (!wrong && why_ended.empty()) tell_in_one_line(examination, report, code);
    tell_what_is_left(examination);
    if (!why_ended.empty()) complain(why_ended);
    const bool failed_on =
        options_.fail_on_given && report.invocation.exit_code.value == kExitFinding;
    const int own_code = code == 0 && failed_on ? static_cast<int>(kExitFinding) : code;
    if (!options_.on_failure.empty() && (own_code != 0 || wrong)) {
      run_on_failure(options_.on_failure, failure_notice(report, json_path(), own_code));
    }
    return own_code;
  }

 private:
  // What others have left on the machine is not the command's doing.
  static bool is_wrong(const Finding& finding) {
    return finding.severity == Severity::kError ||
           (finding.severity == Severity::kWarning && !finding.processes.empty());
  }

  std::string json_path() const {
    const auto json = std::ranges::find(outputs_, "json",
                                        [](const Output& output) { return output.format->name; });
    return json == outputs_.end() ? "" : json->path;
  }

  // Files always, for people only what is worth their while.
  void write(const report::Report& report, bool for_people) const {
    std::vector<Output> outputs = outputs_;
    if (!for_people) std::erase_if(outputs, [](const Output& each) { return each.path.empty(); });
    const Status written = write_outputs(outputs, options_.output, AnyReport(report));
    if (!written) complain(to_string(written.error()));
  }

  void tell_in_one_line(const Examination& examination, const report::Report& report,
                        int code) const {
    if (code != 0 && examination.wait_status && !is_everyday_end(examination)) {
      complain(
          fmt::format("the command {}; dlprobe saw no cause, see the command's own output above{}",
                      how_it_ended(*examination.wait_status),
                      who_had_no_witness(examination.recording.runs.back())));
    } else if (options_.output.verbosity > 0) {
      complain(report.summary.headline);
    }
  }

  // Of the interpreters that failed; what they raised nobody saw.
  static std::string who_had_no_witness(const Run& run) {
    std::string pids;
    for (const ProcessExit& exit : run.exits) {
      const ProcessInfo* process = run.find_process(exit.key);
      const bool is_python = process != nullptr && is_python_name(process->comm);
      const bool has_failed = exit.wait_status && *exit.wait_status != 0;
      const bool had_one = std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
        return event.kind == StartEventKind::kInterpreter && event.process == exit.key;
      });
      if (is_python && has_failed && !had_one && !is_copy(run, *process))
        pids += fmt::format(" {}", exit.key.pid);
    }
    if (pids.empty()) return "";
    const auto known = std::ranges::find_if(run.gaps, [](const Gap& gap) {
      return gap.what.plain() == "exceptions in the command's interpreters";
    });
    return "; dlprobe's witness was not in the Python of pid" + pids + " (" +
           (known == run.gaps.end() ? "-I, -E, env -i, another user" : known->why.plain()) + ")";
  }

  // Of its parent, whose witness it has.
  static bool is_copy(const Run& run, const ProcessInfo& process) {
    return std::ranges::any_of(run.processes, [&](const ProcessInfo& other) {
      return other.key.pid == process.ppid && other.cmdline == process.cmdline;
    });
  }

  // Stopped by the user, or by whoever read its output and had enough.
  static bool is_everyday_end(const Examination& examination) {
    const auto& end = examination.recording.runs.back().end;
    const bool is_interrupted = end && end->reason == RunEndReason::kInterrupted;
    return is_interrupted || is_ended_by(examination, SIGINT) || is_ended_by(examination, SIGPIPE);
  }

  // A loader that goes on alone is worth a word, a daemon is not.
  static void tell_what_is_left(const Examination& examination) {
    if (!examination.wait_status) return;
    std::string pids;
    for (const ProcessKey& key : examination.left) {
      const ProcessInfo* process = examination.recording.runs.back().find_process(key);
      const bool is_loader =
          process != nullptr && (process->role == Role::kWorker || process->role == Role::kTrainer);
      if (is_loader) pids += fmt::format(" {}", key.pid);
    }
    if (pids.empty()) return;
    complain("the command ended, but processes of its loader still run, no longer watched: pid" +
             pids);
  }

  const RunOptions& options_;
  std::vector<Output> outputs_;
  std::string told_;           ///< the headline of the report on a hang
  std::vector<Finding> hang_;  ///< what it found
  std::vector<Finding> past_;  ///< that, of hangs that are over
};

Expected<ExamineRequest> make_request(const RunOptions& options, const Session& session,
                                      RunReporter& reporter) {
  if (session.child_command.empty()) {
    return failure(ErrorCode::kInvalid,
                   "run needs a command: dlprobe run [options] -- python train.py");
  }
  ExamineRequest request = request_for(probes::run::kProbe, session.arguments);
  request.arguments.emplace_back("--");
  std::ranges::copy(session.child_command, std::back_inserter(request.arguments));
  auto& command = request.subject.emplace<CommandSubject>();
  command.argv = session.child_command;
  DLP_CHECK(put_watch_options(options.watch, probes::run::kProbe, request));
  DLP_CHECK(put_launch_options(options.launch, request));
  DLP_CHECK(put_confirm_option(options.confirm, request));
  DLP_CHECK(put_python_options(options.python, command));
  CommandWatch watch = {
      .end_when_hung = options.on_hang == "kill" || !options.confirm.empty(),
      .when_hung = [&reporter](const Recording& recording) { reporter.tell_hang(recording); },
      .when_moving_again =
          [&reporter](std::chrono::nanoseconds stood) { reporter.tell_moving_again(stood); }};
  DLP_TRY(watch.hang_after, parse_duration(options.hang_after));
  if (watch.hang_after < kShortestHang) {
    return failure(ErrorCode::kInvalid, "--hang-after " + options.hang_after +
                                            " is less than 1s, which a healthy job may need for "
                                            "one batch");
  }
  command.watch = std::move(watch);
  return request;
}

int run(const RunOptions& options, const Session& session) {
  auto outputs = planned_outputs(options.output);
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  RunReporter reporter(options, std::move(*outputs));
  const auto request = make_request(options, session, reporter);
  if (!request) return complain_and_return(request.error(), kExitUsage);
  const Examination examination = on_this_machine(
      probes::run::kProbe, options.output.quiet ? ShowProgress::kNo : ShowProgress::kLines,
      [&](const Surroundings& surroundings) { return examine(*request, surroundings); });
  if (examination.refusal) {
    return refuse(*examination.refusal);
  }
  const int code = reporter.conclude(examination);
  if (is_ended_by(examination, SIGINT)) end_as_interrupted();
  return code;
}

}  // namespace

void add_run_command(CLI::App& app, const Session& session, int& exit_status) {
  constexpr const char* kGroup = "Watch";
  auto* command = app.add_subcommand("run", std::string(probes::run::kProbe.summary));
  const auto options = std::make_shared<RunOptions>();
  options->output.stream = STDERR_FILENO;
  set_examples(*command,
               {{"run -- python train.py", "silent unless something is wrong"},
                {"run --on-hang kill -- torchrun train.py", "kill it when it hangs"},
                {"run --shm-size 64m -- python train.py", "rehearse a smaller container"}});
  command
      ->add_option("--hang-after", options->hang_after,
                   "report a hang when no batch of the loader has moved for this long")
      ->type_name("DURATION")
      ->capture_default_str()
      ->group(kGroup);
  command->add_option("--on-hang", options->on_hang, "report, or report and kill")
      ->check(one_of({"report", "kill"}))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--on-failure", options->on_failure,
                   "run CMD with /bin/sh if the command fails or dlprobe finds something")
      ->type_name("CMD")
      ->group(kGroup);
  add_launch_options(*command, options->launch, "Limits of the command");
  add_confirm_option(*command, options->confirm, kGroup);
  add_python_options(*command, options->python, "Overrides in a Python command");
  add_watch_options(*command, options->watch, probes::run::kProbe, kGroup);
  add_output_options(*command, options->output);
  command->callback([command, options, &session, &exit_status] {
    options->fail_on_given = command->count("--fail-on") > 0;
    exit_status = run(*options, session);
  });
}

}  // namespace dlprobe
