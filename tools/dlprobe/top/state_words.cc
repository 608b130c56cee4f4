#include <fmt/format.h>

#include <algorithm>

#include "lib/foreign/syscalls.h"
#include "probes/facts/waits.h"
#include "tools/dlprobe/top/job_picture.h"

namespace dlprobe {
namespace {

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::kPipe:
      return "a pipe";
    case FileKind::kFifo:
      return "a fifo";
    case FileKind::kSocket:
      return "a socket";
    case FileKind::kListeningSocket:
      return "a connection";
    case FileKind::kConnectingSocket:
      return "an answer to its connection";
    case FileKind::kEventfd:
      return "an event";
    case FileKind::kFile:
    case FileKind::kOther:
      break;
  }
  return "a file";
}

std::string wait_for_files(const ThreadWait& wait) {
  if (wait.files.empty()) return "waits for a file";
  const FileKind kind = wait.files.front().kind;
  const bool is_alike =
      std::ranges::all_of(wait.files, [&](const WaitedFile& file) { return file.kind == kind; });
  if (wait.files.size() == 1) return fmt::format("waits for {}", name_of(kind));
  if (!is_alike) return fmt::format("waits for one of {} files", wait.files.size());
  return fmt::format("waits for one of {} {}s", wait.files.size(), to_string(kind));
}

std::string words_of_wait(const ThreadWait& wait, std::string_view machine) {
  switch (kind_of(wait, machine)) {
    case WaitKind::kRunning:
      return "runs";
    case WaitKind::kPoll:
    case WaitKind::kRead:
    case WaitKind::kSelect:
    case WaitKind::kEpoll:
      return wait_for_files(wait);
    case WaitKind::kFutex:
      return "waits for a lock";
    case WaitKind::kWrite:
      return wait.files.empty() || wait.files.front().kind == FileKind::kFile
                 ? "writes"
                 : "waits for a reader";
    case WaitKind::kSleep:
      return "sleeps";
    case WaitKind::kSignal:
      return "waits for a signal";
    case WaitKind::kAccept:
      return "waits for a connection";
    case WaitKind::kVfork:
    case WaitKind::kWaitForChild:
      return "waits for a child";
    case WaitKind::kLockFile:
      return "waits for a file lock";
    case WaitKind::kOpen:
      return "waits to open a file";
    case WaitKind::kOther:
      break;
  }
  return "waits";
}

}  // namespace

std::string state_words(const ProcessSample& sample, std::string_view machine) {
  switch (sample.state) {
    case 'R':
      return "runs";
    case 'D':
      return "waits for storage";
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "ended";
    default:
      break;
  }
  if (sample.waits && *sample.waits && !(*sample.waits)->empty())
    return words_of_wait((*sample.waits)->front(), machine);
  return "waits";
}

}  // namespace dlprobe
