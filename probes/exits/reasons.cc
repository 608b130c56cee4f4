// What else is known of what the system refused a process that raised an exception for it.

#include <cerrno>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

std::optional<Reason> full_file_system(const StartEvent& event) {
  constexpr uint64_t kHardlyAnything = uint64_t{64} << 10U;
  if (event.path.empty() || !event.free_bytes) return std::nullopt;
  const Message path = as_path(event.path);
  const bool is_inodes = lacks_inodes(event);
  const bool is_quota = event.error_number == EDQUOT;
  if (!is_quota && !is_inodes && *event.free_bytes >= kHardlyAnything) return std::nullopt;
  Reason reason;
  if (is_quota) {
    reason.clause = say("; the user's quota on the file system of {} is full", path);
  } else if (is_inodes) {
    reason.clause = say("; the file system of {} has no free inodes", path);
  } else {
    reason.clause =
        say("; the file system of {} is full: {}{} free", path, format_bytes(*event.free_bytes),
            event.bytes ? " of " + format_bytes(*event.bytes) : OwnWords());
  }
  reason.evidence.push_back(text_fact("file", path, kShimSource, event.at));
  reason.evidence.push_back(bytes_fact("free", *event.free_bytes, "statvfs, afterwards", event.at));
  const OwnWords look = is_inodes ? "df -i " : "df -h ";
  reason.remedy = {.title = "Make room there, or write to a file system with more room",
                   .commands = {is_quota ? Message("quota -s") : look + path},
                   .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
                   .verify = "dlprobe run -- COMMAND"};
  return reason;
}

std::optional<Reason> size_of_file(const StartEvent& event) {
  if (event.error_number != EFBIG || event.wanted != "file size" || !event.limit)
    return std::nullopt;
  Reason reason;
  reason.clause = say("; its files may have at most {} (RLIMIT_FSIZE)", format_bytes(*event.limit));
  if (!event.path.empty())
    reason.evidence.push_back(text_fact("file", as_path(event.path), kShimSource, event.at));
  reason.evidence.push_back(
      bytes_fact("file_size_limit", *event.limit, "/proc/PID/limits", event.at));
  reason.remedy = {
      .title = "Raise the limit in the shell that starts the job, or write smaller files",
      .commands = {"ulimit -f unlimited"},
      .applies_to = {"bare-host", "docker", "slurm"},
      .verify = "ulimit -f"};
  return reason;
}

std::optional<Reason> no_descriptor(const StartEvent& event) {
  if (event.error_number != EMFILE || event.wanted.empty() || !event.limit || !event.count)
    return std::nullopt;
  Reason reason;
  reason.clause = say("; the limit is that of {}, not of its descriptors: {} of {} were open",
                      as_text(event.wanted), own(*event.count), own(*event.limit));
  reason.evidence.push_back(
      count_fact("descriptors", static_cast<uint64_t>(*event.count), kShimSource, event.at));
  reason.evidence.push_back(count_fact("limit", *event.limit, kShimSource, event.at));
  if (event.wanted.starts_with("inotify ")) {
    reason.remedy = {.title =
                         "Watch more paths with one inotify instance, close those that are done "
                         "with, or raise the user's limit",
                     .commands = {"sudo sysctl -w fs.inotify.max_user_instances=1024"},
                     .applies_to = {"bare-host"},
                     .verify = "cat /proc/sys/fs/inotify/max_user_instances"};
    return reason;
  }
  const Message place = short_place(event);
  reason.remedy = {.title = say("See what is opened {}: inotify and fanotify have limits of their "
                                "own",
                                place.empty() ? Message("there") : "at " + place),
                   .commands = {"sysctl fs.inotify fs.fanotify"},
                   .verify = "dlprobe run -- COMMAND"};
  return reason;
}

}  // namespace

std::optional<Reason> reason_of(const StartEvent& event) {
  if (auto reason = no_descriptor(event)) return reason;
  if (auto reason = size_of_file(event)) return reason;
  return full_file_system(event);
}

}  // namespace dlprobe::probes::exits
