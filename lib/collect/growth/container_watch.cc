#include "lib/collect/growth/container_watch.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/collect/tree/thread_waits.h"
#include "lib/foreign/python_code.h"
#include "lib/os/clock.h"
#include "lib/stacks/native/module_symbols.h"
#include "lib/stacks/python/containers.h"

namespace dlprobe {
namespace {

constexpr BootNs kYoungest = 3 * kSecond;
constexpr BootNs kMostSeldom = 30 * kSecond;
/// What a loader that works takes and gives back between two looks is less.
constexpr uint64_t kLeastRise = 8U << 20U;  // bytes
constexpr uint64_t kMoreDescriptors = 16;
constexpr int32_t kMoreThreads = 2;
constexpr size_t kMoreChildren = 4;
constexpr size_t kMostGrown = 32;

BootNs age_of(const ProcessKey& key, BootNs now) {
  return now - ns_of_ticks(key.start_ticks);
}

uint64_t own_memory(const ProcessSample& sample) {
  const uint64_t all = sample.rss_bytes.value_or(0);
  return all - std::min(all, sample.rss_shared_bytes.value_or(0));
}

StackFrame frame_of(const PythonFrame& frame) {
  return {.python = true, .function = frame.function, .file = frame.file, .line = frame.line};
}

}  // namespace

/// What the helper thread keeps from one look to the next.
struct ContainerWatch::State {
  struct Kept {
    std::optional<PythonRuntime> runtime;
    BootNs at = 0;
    std::map<uint64_t, uint64_t> counts;  ///< of each container, by its address
  };
  struct Target {
    ProcessKey key;
    std::shared_ptr<const Directory> directory;
  };
  struct Answer {
    std::optional<ContainerLook> look;
    int64_t cpu_time = 0;
  };

  explicit State(Machine looked_at) : machine(std::move(looked_at)) {}

  Machine machine;
  ModuleCache modules;
  PythonCodeCache codes;
  std::map<ProcessKey, Kept> kept;
  std::mutex mutex;
  std::optional<Answer> answer;  ///< of the last look, until it is taken

  /// Nothing: it has no Python that can be read, or it is the first look at it.
  std::optional<ContainerLook> look(const Target& target) {
    const ProcessMemory memory(machine.processes, image_thread(*target.directory, target.key.pid));
    Kept& before = kept[target.key];
    const BootNs now = machine.clock->now();
    if (!before.runtime) before.runtime = find(target, memory);
    if (!before.runtime) return std::nullopt;
    const auto layout = python_value_layout(before.runtime->version);
    const auto stacks = read_python_stacks(memory, *before.runtime, codes);
    // It may run another program by now.
    if (!stacks) before.runtime.reset();
    if (!stacks || !layout || before.runtime->free_threaded) return std::nullopt;
    PythonContainers reader(memory, *before.runtime, *layout);
    const std::vector<PythonContainer> all = reader.list(stacks->threads);
    ContainerLook result{.at = now, .before_at = before.at, .process = target.key, .grown = {}};
    result.grown = grown(all, before, reader);
    add_crowd(stacks->threads, result);
    before.counts.clear();
    for (const PythonContainer& each : all)
      before.counts[each.address] = each.count;
    const bool is_first = std::exchange(before.at, now) == 0;
    return is_first ? std::nullopt : std::optional(std::move(result));
  }

 private:
  std::optional<PythonRuntime> find(const Target& target, const ProcessMemory& memory) {
    const auto space = AddressSpace::read(*target.directory);
    if (!space) return std::nullopt;
    ModuleSymbols symbols(*target.directory, modules);
    auto runtime = find_python(memory, *space, symbols);
    return runtime ? std::move(*runtime) : std::nullopt;
  }

  // By the innermost function of the program in each. Outside of the start of a forked child the
  // frames are its parent's.
  static void add_crowd(const std::vector<PythonThread>& threads, ContainerLook& look) {
    std::map<std::pair<std::string, std::string>, std::vector<const PythonFrame*>> crowds;
    look.threads = threads.size();
    for (const PythonThread& thread : threads) {
      const auto start = std::ranges::find_if(thread.frames, [](const PythonFrame& each) {
        return is_of_multiprocessing(each.file, "popen_fork.py");
      });
      const auto frame = std::find_if(thread.frames.begin(), start, [](const PythonFrame& each) {
        return !is_of_a_library(each.file);
      });
      if (frame != start) crowds[{frame->file, frame->function}].push_back(&*frame);
    }
    for (const auto& [function, frames] : crowds) {
      if (frames.size() <= look.in_crowd) continue;
      look.in_crowd = frames.size();
      look.crowd = frame_of(*frames.front());
    }
  }

  static std::vector<GrownContainer> grown(const std::vector<PythonContainer>& all,
                                           const Kept& before, PythonContainers& reader) {
    std::vector<std::pair<uint64_t, const PythonContainer*>> more;
    for (const PythonContainer& each : all) {
      const auto known = before.counts.find(each.address);
      if (known != before.counts.end() && each.count > known->second)
        more.emplace_back(each.count - known->second, &each);
    }
    std::ranges::stable_sort(more, std::greater(), [](const auto& pair) { return pair.first; });
    if (more.size() > kMostGrown) more.resize(kMostGrown);
    std::vector<GrownContainer> result;
    result.reserve(more.size());
    for (const auto& [rise, container] : more) {
      const auto user = reader.user_of(*container);
      result.push_back({.address = container->address,
                        .name = mask_secrets({reader.name_of(*container)}).front(),
                        .type = reader.type_of(*container),
                        .before = container->count - rise,
                        .count = container->count,
                        .item_bytes = reader.newest_item_bytes(*container),
                        .user = user ? std::optional(frame_of(*user)) : std::nullopt});
    }
    return result;
  }
};

ContainerWatch::ContainerWatch(Machine machine)
    : machine_(std::move(machine)), state_(std::make_shared<State>(machine_)) {}

ContainerWatch::~ContainerWatch() = default;

ContainerWatch::Had ContainerWatch::has_now(const TrackedProcess& process, size_t children,
                                            BootNs now) {
  const ProcessSample& sample = process.sample;
  return {.at = now,
          .every = kSecond,
          .memory = own_memory(sample),
          .descriptors = sample.fd_count ? sample.fd_count->value_or(0) : 0,
          .threads = sample.threads,
          .children = children};
}

bool ContainerWatch::is_due(const TrackedProcess& process, size_t children, BootNs now) {
  const Role role = process.info.role;
  const bool is_helper = role == Role::kResourceTracker || role == Role::kShmManager;
  if (!is_alive(process) || is_helper || age_of(process.key, now) < kYoungest) return false;
  const Had has = has_now(process, children, now);
  const Had& had = had_.try_emplace(process.key, has).first->second;
  const bool has_more = has.memory >= had.memory + kLeastRise ||
                        has.children >= had.children + kMoreChildren ||
                        has.threads >= had.threads + kMoreThreads ||
                        has.descriptors >= had.descriptors + kMoreDescriptors;
  return has_more && now - had.at >= had.every;
}

void ContainerWatch::look_if_due(const ProcessTree& tree, BootNs now, RecordSink& sink) {
  budget_.refill(now);
  take_answer(sink);
  if (is_looking_ || !budget_.has(0)) return;
  std::erase_if(had_, [&](const auto& entry) { return !tree.lives(entry.first); });
  const TrackedProcess* next = nullptr;
  std::map<int32_t, size_t> children;
  for (const auto& [key, process] : tree.members())
    ++children[process.sample.ppid];
  for (const auto& [key, process] : tree.members()) {
    if (is_due(process, children[key.pid], now) &&
        (next == nullptr || had_.at(process.key).at < had_.at(next->key).at))
      next = &process;
  }
  if (next == nullptr) return;
  const BootNs every = had_.at(next->key).every;
  Had& had = had_.at(next->key) = has_now(*next, children[next->key.pid], now);
  had.every = std::min(every + every / 2, kMostSeldom);
  std::vector<ProcessKey> living;
  living.reserve(had_.size());
  for (const auto& [key, each] : had_)
    living.push_back(key);
  const State::Target target{.key = next->key, .directory = next->directory};
  const auto found = reader_.run<bool>(
      "look at the containers of a process", [state = state_, target, living] -> Expected<bool> {
        const int64_t before = cpu_time_of_thread();
        std::erase_if(state->kept, [&](const auto& entry) {
          return !std::ranges::binary_search(living, entry.first);
        });
        auto look = state->look(target);
        const std::scoped_lock lock(state->mutex);
        state->answer =
            State::Answer{.look = std::move(look), .cpu_time = cpu_time_of_thread() - before};
        return true;
      });
  is_looking_ = found || found.error().code == ErrorCode::kTimeout;
}

// A sample does not wait for it: on a busy machine it takes long.
void ContainerWatch::take_answer(RecordSink& sink) {
  std::optional<State::Answer> answer;
  {
    const std::scoped_lock lock(state_->mutex);
    answer = std::exchange(state_->answer, std::nullopt);
  }
  if (!answer) return;
  is_looking_ = false;
  budget_.spend(answer->cpu_time);
  if (answer->look) sink.add(*answer->look);
}

}  // namespace dlprobe
