/// One snapshot of one process, as dlprobe takes it: for pause_cost.py.
///
/// usage: snapshot_once PID [all]
///
/// Prints the pause in ns. With "all" every thread is stopped and its stack copied, not the running
/// ones alone: the most that a stop may cost.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/parse.h"
#include "lib/collect/snapshot/snapshot.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/os/thread_stop.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"

namespace {

using namespace dlprobe;  // NOLINT(google-build-using-namespace)

class NoSink final : public RecordSink {
 public:
  void add(Record /*record*/) override {}
};

int64_t stop_all(const Machine& machine, const Directory& process, int32_t pid) {
  constexpr uint64_t kStackBytes = 128 << 10;
  const auto names = process.list("task");
  const auto space = AddressSpace::read(process);
  if (!names || !space) return -1;
  std::vector<int32_t> tids;
  for (const std::string& name : *names)
    tids.push_back(parse_int<int32_t>(name).value_or(0));
  const ProcessMemory memory(machine.processes, pid);
  const ThreadStop stop =
      stop_threads(tids, std::chrono::seconds(1), [&](std::span<const StoppedThread> threads) {
        for (const StoppedThread& thread : threads) {
          const Mapping* stack = space->find(thread.stack_pointer);
          if (stack == nullptr) continue;
          memory.preload(thread.stack_pointer,
                         std::min(stack->end, thread.stack_pointer + kStackBytes));
        }
      });
  return stop.pause.count();
}

}  // namespace

int main(int argc, char** argv) {
  const auto pid = argc > 1 ? parse_int<int32_t>(argv[1]) : std::nullopt;
  const auto machine = live_machine();
  if (!pid || !machine) return 2;
  const auto key = process_key(*machine, *pid);
  auto process = machine->root->open_directory(fmt::format("proc/{}", *pid));
  if (!key || !process) return 2;
  if (argc > 2 && std::string_view(argv[2]) == "all") {
    fmt::print("{}\n", stop_all(*machine, **process, *pid));
    return 0;
  }
  NoSink sink;
  const TreeSnapshot tree =
      SnapshotTaker(*machine, {}, sink).take({{.key = *key, .directory = *process}});
  if (tree.processes.size() != 1) return 1;
  fmt::print("{}\n", tree.processes[0].pause_ns);
  return 0;
}
