// DLP0608 temporary-folder-unusable, DLP0508 memory-limit-too-low and DLP0513
// fork-refused-by-overcommit, where an exception says so.

#include <algorithm>
#include <cerrno>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

Finding finding_of(const Run& run, const StartEvent& event, FindingCode code) {
  Finding finding = new_finding(code, Confidence::kCertain);
  finding.severity = Severity::kError;
  finding.discriminator = "refused";
  finding.processes = {event.process};
  finding.message = describe(run, event.process);
  add_exception(finding, event);
  finding.first_seen = finding.last_seen = event.at;
  return finding;
}

// By the files that are still there of what the job wrote: at least half of the file system.
bool filled_it_itself(const StartEvent& event) {
  return event.count && event.made_bytes && event.bytes && *event.made_bytes >= *event.bytes / 2;
}

Finding no_temporary_space(const Run& run, const StartEvent& event) {
  Finding finding = finding_of(run, event, FindingCode::kTemporaryFolderUnusable);
  const bool is_inodes = lacks_inodes(event);
  const char* what = is_inodes ? "its file system has no free inodes" : "its file system is full";
  if (event.error_number == EDQUOT) what = "the user's quota is full";
  finding.message +=
      say(" could not write to {}{}: {}", as_path(event.path), place_of(event), what);
  finding.prove(text_fact("file", as_path(event.path), kShimSource, event.at));
  if (event.free_bytes)
    finding.prove(bytes_fact("free", *event.free_bytes, "statvfs, afterwards", event.at));
  finding.rule_out("DLP0102", "it is not in /dev/shm");
  if (filled_it_itself(event)) {
    finding.message += say("; {} of its user, of {}, were written there since the command began",
                           counted(static_cast<uint64_t>(event.count.value_or(0)), "file"),
                           format_bytes(event.made_bytes.value_or(0)));
    finding.prove(
        bytes_fact("taken", event.made_bytes.value_or(0), "stat of the folder's files", event.at));
    finding.remedies.push_back(
        {.title = "Delete temporary files as soon as they are done with: more room only "
                  "postpones it",
         .commands = {"with tempfile.NamedTemporaryFile() as file: ...  # not delete=False",
                      "os.unlink(file.name)"},
         .verify = "dlprobe run -- COMMAND"});
  }
  finding.remedies.push_back({.title = "Make room in it, or point TMPDIR at a folder with room",
                              .commands = {(is_inodes ? "df -i " : "df -h ") + as_path(event.path),
                                           "export TMPDIR=<folder>"},
                              .applies_to = {"bare-host", "docker", "kubernetes", "slurm"}});
  return finding;
}

Finding no_temporary_folder(const Run& run, const StartEvent& event) {
  Finding finding = finding_of(run, event, FindingCode::kTemporaryFolderUnusable);
  finding.message +=
      say(" could not write to {}{}: it cannot write to the folder for temporary files",
          as_path(event.path), place_of(event));
  finding.prove(text_fact("file", as_path(event.path), kShimSource, event.at));
  finding.remedies.push_back({.title =
                                  "Point TMPDIR at a folder that exists and that the job's user "
                                  "can write to",
                              .commands = {"export TMPDIR=<folder>"},
                              .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
                              .verify = R"(test -w "$TMPDIR" && test -x "$TMPDIR")"});
  return finding;
}

// A RuntimeError is that of torch's allocator where its process has hardly anything left; of
// another one that is chance.
bool may_be_for_memory(const StartEvent& event, uint64_t limit, uint64_t taken) {
  constexpr uint64_t kPart = 8;
  return event.type != "RuntimeError" || limit - std::min(limit, taken) <= limit / kPart;
}

void add_limit_remedy(Finding& finding, const StartEvent& event) {
  const bool is_data = event.wanted.starts_with("data");
  const OwnWords name = is_data ? "RLIMIT_DATA" : "RLIMIT_AS";
  finding.remedies.push_back(
      {.title = "Raise the limit in the shell that starts the job, or in the program that sets it",
       .commands = {is_data ? "ulimit -d unlimited" : "ulimit -v unlimited",
                    say("resource.setrlimit(resource.{}, (resource.RLIM_INFINITY,) * 2)", name)},
       .applies_to = {"bare-host", "docker", "slurm"},
       .verify = is_data ? "ulimit -d" : "ulimit -v"});
}

Finding no_own_memory(const Run& run, const StartEvent& event, uint64_t limit, uint64_t taken) {
  Finding finding = finding_of(run, event, FindingCode::kMemoryLimitTooLow);
  const bool is_near = taken >= limit / 2;
  if (!is_near || event.type == "RuntimeError") finding.confidence = Confidence::kLikely;
  const bool is_data = event.wanted.starts_with("data");
  const OwnWords name = is_data ? "RLIMIT_DATA" : "RLIMIT_AS";
  finding.message +=
      say(" could not allocate memory{}: the limit of its {} is {} ({}), and {} was in use",
          place_of(event), is_data ? "data segment" : "address space", format_bytes(limit), name,
          format_bytes(taken));
  finding.prove(bytes_fact("memory_limit", limit, "/proc/PID/limits", event.at));
  finding.prove(bytes_fact("memory", taken,
                           is_data ? "VmData of /proc/PID/status" : "VmSize of /proc/PID/status",
                           event.at));
  finding.rule_out("out of memory (DLP0501, DLP0502)",
                   "a refused allocation raises an exception; the OOM killer sends SIGKILL");
  add_limit_remedy(finding, event);
  add_growth(finding, run);
  return finding;
}

// An area of its memory is larger than what the kernel grants at once, where it guesses.
Finding no_copy(const Run& run, const StartEvent& event, uint64_t limit, uint64_t taken) {
  Finding finding = finding_of(run, event, FindingCode::kForkRefusedByOvercommit);
  finding.message +=
      say(" could not fork{}: {} of its memory are in one piece, and with vm.overcommit_memory=0 "
          "the kernel copies no piece that is larger than the machine's memory and swap ({})",
          place_of(event), format_bytes(taken), format_bytes(limit));
  finding.prove(text_fact("overcommit_memory", "0", "/proc/sys/vm/overcommit_memory", event.at));
  finding.prove(held_against(
      bytes_fact("own_memory", taken, "the largest area of /proc/PID/smaps", event.at), "> limit"));
  finding.prove(bytes_fact("limit", limit, "MemTotal and SwapTotal of /proc/meminfo", event.at));
  finding.rule_out("out of memory (DLP0501, DLP0502)",
                   "a refused fork raises an exception; the OOM killer sends SIGKILL");
  finding.remedies =
      remedies_for_refused_copy("Have the kernel grant each copy, however large its memory is",
                                "sudo sysctl -w vm.overcommit_memory=1");
  finding.advise("Keep the data where fork copies nothing: tensor.share_memory_(), numpy.memmap");
  return finding;
}

}  // namespace

std::optional<Finding> refused_resource(const Run& run) {
  for (const StartEvent* event : fatal_exceptions(run)) {
    const bool is_space = event->error_number == ENOSPC || event->error_number == EDQUOT;
    if (event->is_temporary)
      return is_space || event->free_bytes ? no_temporary_space(run, *event)
                                           : no_temporary_folder(run, *event);
    const bool has_limit = !event->wanted.empty() && event->limit && event->bytes;
    if (has_limit && event->wanted == "copy")
      return no_copy(run, *event, *event->limit, *event->bytes);
    if (!is_space && has_limit && may_be_for_memory(*event, *event->limit, *event->bytes))
      return no_own_memory(run, *event, *event->limit, *event->bytes);
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::exits
