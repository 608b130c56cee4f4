#include "lib/collect/snapshot/process_look.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "lib/collect/snapshot/access_gap.h"
#include "lib/collect/snapshot/flight_look.h"
#include "lib/collect/snapshot/lock_look.h"
#include "lib/collect/snapshot/named_files.h"
#include "lib/collect/tree/thread_waits.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/foreign/libraries.h"
#include "lib/os/job_rank.h"
#include "lib/stacks/locks/futex_wait.h"
#include "lib/stacks/locks/openmp_pool.h"
#include "lib/stacks/native/live_environment.h"
#include "lib/stacks/native/module_symbols.h"
#include "lib/stacks/native/process_group.h"

namespace dlprobe {
namespace {

constexpr size_t kMostThreads = 1024;

/// What of a process is read to see which libraries with threads of their own it has.
struct LibraryImage {
  const AddressSpace& space;
  const Memory& memory;
  const Directory& process;  ///< the /proc directory by which its files are reached
  /// pthread_self() of its main thread; nothing: pools are not read.
  std::optional<uint64_t> main_thread;
};

std::optional<OpenMpPool> pool_of(const LibraryImage& image, const Mapping& mapping,
                                  ModuleCache& modules) {
  if (!image.main_thread) return std::nullopt;
  const auto& file = modules.file_of(image.process, mapping);
  if (!file) return std::nullopt;
  const auto bias = (*file)->bias(mapping);
  const auto function = (*file)->symbol("omp_get_max_threads");
  if (!bias || !function) return std::nullopt;
  return read_openmp_pool(image.memory, *bias + *function, *image.main_thread);
}

bool is_main_that_long_waits(const ProcessSnapshot& process, const ThreadSnapshot& thread) {
  constexpr BootNs kLongWait = 3 * kSecond;
  return thread.tid == process.key.pid && process.at - thread.blocked_since >= kLongWait;
}

bool is_of_interest(std::string_view variable) {
  return tells_job_rank(variable) || tells_flight_dump(variable);
}

// The mapped libraries that keep threads, by address, each file once; of a libgomp what the main
// thread has of its pool.
std::vector<MappedLibrary> look_at_libraries(const LibraryImage& image, ModuleCache& modules) {
  std::vector<MappedLibrary> libraries;
  for (const Mapping& mapping : image.space.mappings()) {
    if (!mapping.executable || mapping.inode == 0) continue;
    const ThreadKeeper keeper = thread_keeper(mapping.path);
    if (keeper == ThreadKeeper::kNone) continue;
    const bool is_known = std::ranges::any_of(libraries, [&](const MappedLibrary& each) {
      return each.device == mapping.device && each.inode == mapping.inode;
    });
    if (is_known) continue;
    MappedLibrary library{.file = mapping.path,
                          .device = mapping.device,
                          .inode = mapping.inode,
                          .pool = std::nullopt};
    if (keeper == ThreadKeeper::kGnuOpenMp) library.pool = pool_of(image, mapping, modules);
    libraries.push_back(std::move(library));
  }
  return libraries;
}

}  // namespace

Expected<ProcessSnapshot> ProcessLook::look(std::chrono::nanoseconds max_pause) {
  ProcessSnapshot snapshot{.key = image_.target.key, .at = image_.machine.clock->now()};
  DLP_CHECK(image_.open());
  DLP_TRY(const auto tids,
          list_threads(*image_.target.directory, image_.target.key.pid, kMostThreads));
  parts_ = std::make_unique<Parts>(image_);
  ThreadLook& threads = parts_->threads;
  ModuleCache& modules = image_.kept.modules;
  Unwinder unwinder(image_.memory, image_.space, *image_.directory, modules);
  for (const int32_t tid : tids) {
    if (auto thread = threads.look_at(tid, unwinder))
      snapshot.threads.push_back(std::move(*thread));
  }
  if (image_.forbidden) {
    snapshot.python_note = to_string(*image_.forbidden);
  } else if (!threads.is_of_kernel()) {
    ModuleSymbols symbols(*image_.directory, modules);
    image_.python.find(image_.space, symbols);
    threads.look_again_at_moved(snapshot, unwinder);
    parts_->pause.stop_and_look(snapshot, unwinder, max_pause);
    image_.python.assign(snapshot, image_.space, parts_->seen.stack_pointers);
    if (image_.python.runtime() != nullptr) {
      const std::string environment =
          read_live_environment(image_.memory, image_.space, symbols, is_of_interest);
      rank_ = job_rank_of(environment);
      find_groups(symbols);
      if (!rank_) rank_ = rank_of_default_group(groups_, image_.space);
      find_progress(snapshot, environment);
    }
    snapshot.libraries =
        look_at_libraries({.space = image_.space,
                           .memory = image_.memory,
                           .process = *image_.directory,
                           .main_thread = image_.python.pthread_of(image_.main_thread)},
                          modules);
  }
  return snapshot;
}

void ProcessLook::find_groups(SymbolSource& symbols) {
  std::vector<uint64_t> stacks;
  for (const auto& [tid, pointer] : parts_->seen.stack_pointers)
    if (tid != image_.target.key.pid) stacks.push_back(pointer);
  groups_ = find_process_groups(image_.memory, image_.space, symbols, stacks);
}

void ProcessLook::find_progress(ProcessSnapshot& snapshot, const std::string& environment) {
  if (!rank_ || (image_.target.is_worker && groups_.empty())) return;
  FlightRecord live{.groups = progress_of(image_.memory, groups_), .is_live = true};
  const Clock& clock = *image_.machine.clock;
  const FlightWriter writer = {
      .directory = image_.target.directory,
      .files = flight_dump_files(variables_of(environment), rank_->rank),
      .uid = image_.status.uid,
      .started_ns = started_realtime_ns(clock, image_.target.key.start_ticks)};
  auto dump = read_flight_record(writer, image_.space, clock, image_.kept.dumps);
  if (!dump && dump.error().code != ErrorCode::kNotFound) unread_dump_ = std::move(dump.error());
  if (!live.groups.empty()) {
    if (dump) add_dump(live, *dump);
    snapshot.flight = std::move(live);
  } else if (dump) {
    snapshot.flight = std::move(*dump);
  }
}

std::vector<Gap> ProcessLook::gaps() const {
  std::vector<Gap> gaps;
  const std::optional<Error>& not_stopped = parts_->pause.not_stopped();
  const int32_t pid = image_.target.key.pid;
  if (parts_->threads.is_of_kernel()) {
    gaps.push_back({.what = "stacks of process " + own(pid),
                    .why = "it is a kernel thread",
                    .effect = "it has no program whose stack could be shown"});
  } else if (image_.forbidden) {
    gaps.push_back(
        access_gap(*image_.machine.root, *image_.target.directory, pid, *image_.forbidden));
  }
  if (image_.status.tracer_pid != 0) {
    const Message tracer = describe_tracer(*image_.machine.root, image_.status.tracer_pid);
    gaps.push_back({.what = "running threads of process " + own(pid),
                    .why = "another program already traces the process: " + tracer,
                    .effect = "dlprobe reads its running threads without stopping them",
                    .remedy = "detach or end " + tracer});
  } else if (not_stopped && !image_.forbidden) {
    Gap gap = access_gap(*image_.machine.root, *image_.target.directory, pid, *not_stopped);
    gap.what = "running threads of process " + own(pid);
    gap.effect = "their native stacks are missing";
    gaps.push_back(std::move(gap));
  }
  if (unread_dump_) {
    gaps.push_back({.what = "Flight Recorder's dump of process " + own(pid),
                    .why = as_text(to_string(*unread_dump_)),
                    .effect = "which collective the rank has come to is told by its stack alone"});
  }
  return gaps;
}

void ProcessLook::want_names(ProcessSnapshot& snapshot, FunctionNames& names) const {
  for (ThreadSnapshot& thread : snapshot.threads)
    parts_->frames.want_names(thread, names);
}

void ProcessLook::refine(ProcessSnapshot& snapshot) const {
  const PointerScan scan(*image_.machine.processes, image_.main_thread, image_.space);
  for (ThreadSnapshot& thread : snapshot.threads) {
    if (thread.futex) refine_by_stack(*thread.futex, thread.stack, image_.memory);
    image_.python.merge(thread);
    image_.python.find_tasks(thread, scan, snapshot.failed_tasks);
    if (is_main_that_long_waits(snapshot, thread) && rank_ && !image_.target.is_worker)
      image_.python.find_loading(snapshot);
    if (thread.wait.files.empty() && may_be_in_sleep(thread.wait))
      add_named_file(image_.machine, *image_.target.directory, image_.python.texts_of(thread.tid),
                     thread.wait);
  }
}

uint64_t ProcessLook::nested_namespace() const {
  if (image_.status.namespace_pids.size() < 2) return 0;
  return namespace_of(*image_.target.directory, "pid").value_or(0);
}

void ProcessLook::find_locks(ProcessSnapshot& snapshot, bool with_shared, PythonLockPlaces& places,
                             const ProcessLook* parent) const {
  LockLook(*image_.machine.processes, image_.main_thread, image_.space, image_.memory,
           image_.python)
      .look(snapshot, with_shared, parts_->seen.stack_pointers, places,
            parent == nullptr ? nullptr : &parent->image_.memory);
  const PointerScan scan(*image_.machine.processes, image_.main_thread, image_.space);
  for (const ThreadSnapshot& thread : snapshot.threads) {
    if (is_main_that_long_waits(snapshot, thread))
      image_.python.find_failed_futures(thread, scan, snapshot.failed_tasks);
  }
}

void ProcessLook::mark_those_who_moved_on(ProcessSnapshot& snapshot) const {
  for (ThreadSnapshot& thread : snapshot.threads) {
    if (thread.wait.files.empty() || !thread.consistent) continue;
    if (!parts_->threads.has_moved_on(thread)) continue;
    thread.consistent = false;
    thread.blocked_since = 0;
  }
}

}  // namespace dlprobe
