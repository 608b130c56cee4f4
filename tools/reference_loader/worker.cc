#include "tools/reference_loader/worker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "tools/reference_loader/death.h"
#include "tools/reference_loader/hang.h"
#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/memory_fault.h"
#include "tools/reference_loader/options.h"
#include "tools/reference_loader/result_queue.h"
#include "tools/reference_loader/segment.h"
#include "tools/reference_loader/shm_manager.h"
#include "tools/reference_loader/signals.h"
#include "tools/reference_loader/tensors.h"
#include "tools/reference_loader/thread_team.h"
#include "tools/reference_loader/transform.h"

namespace dlprobe::loader {
namespace {

void put_text(std::span<char> field, std::string_view text) {
  const size_t count = std::min(text.size(), field.size() - 1);
  std::memcpy(field.data(), text.data(), count);
}

/// Keeps the descriptors of finished batches until the main process asks for them: a thread with a
/// socket, as multiprocessing.resource_sharer.
class Sharer {
 public:
  explicit Sharer(int socket) : socket_(socket) {
    if (socket_ >= 0) std::thread([this] { serve(); }).detach();
  }

  void keep(uint64_t key, std::vector<UniqueFd> fds) {
    const std::scoped_lock lock(mutex_);
    kept_[key] = std::move(fds);
  }

 private:
  void serve() {
    uint64_t key = 0;
    while (read_whole(socket_, writable_bytes_of(key)) == ReadOutcome::kWhole) {
      const std::vector<UniqueFd> owned = take(key);
      std::vector<int> fds;
      fds.reserve(owned.size());
      for (const UniqueFd& fd : owned)
        fds.push_back(fd.get());
      if (!send_with_fds(socket_, bytes_of(key), fds)) return;
    }
  }

  std::vector<UniqueFd> take(uint64_t key) {
    const std::scoped_lock lock(mutex_);
    const auto node = kept_.extract(key);
    return node ? std::move(node.mapped()) : std::vector<UniqueFd>();
  }

  int socket_;
  std::mutex mutex_;
  std::map<uint64_t, std::vector<UniqueFd>> kept_;
};

/// Makes the segments of one process.
class SegmentMaker {
 public:
  SegmentMaker(const WorkerState& state, SegmentPolicy policy)
      : random_(state.random), policy_(policy), manager_(state.fds[kManager]) {}

  Expected<Segment> make(uint64_t bytes) {
    const std::string name = segment_name(getpid(), random_, counter_++);
    if (policy_.strategy == SharingStrategy::kFileDescriptor) {
      return Segment::create(name, bytes, policy_);
    }
    DLP_CHECK(manager_.will_make(name));
    auto segment = Segment::create(name, bytes, policy_);
    if (!segment && !policy_.leaves_refused) manager_.has_freed(name);
    return segment;
  }

  /// The samples' and the labels' segment.
  Expected<std::vector<Segment>> make_pair(uint64_t sample_bytes, uint64_t label_bytes) {
    std::vector<Segment> pair;
    for (const uint64_t bytes : {sample_bytes, label_bytes}) {
      auto segment = make(bytes);
      if (!segment) {
        discard(pair);
        return std::unexpected(std::move(segment).error());
      }
      pair.push_back(std::move(*segment));
    }
    return pair;
  }

 private:
  void discard(const std::vector<Segment>& segments) const {
    if (policy_.strategy == SharingStrategy::kFileDescriptor) return;
    for (const Segment& segment : segments)
      remove_segment(segment.name(), manager_);
  }

  uint32_t random_;
  SegmentPolicy policy_;
  ShmManagerClient manager_;
  uint64_t counter_ = 0;
};

/// A finished batch on its way to the main process.
struct Outgoing {
  ResultMessage message;
  std::vector<Segment> segments;
  std::optional<PrivateBatch> unshared;  ///< to be moved into segments by the feeder
};

/// The result queue's thread, as multiprocessing.Queue has one: the worker never waits for the
/// pipe.
class Feeder {
 public:
  Feeder(ResultWriter writer, Sharer& sharer, SegmentMaker& maker)
      : writer_(writer), sharer_(sharer), maker_(maker), thread_([this] { run(); }) {}
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;
  ~Feeder() {
    put(std::nullopt);
    thread_.join();
  }

  /// Nothing: the end.
  void put(std::optional<Outgoing> outgoing) {
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(std::move(outgoing));
    }
    filled_.notify_one();
  }

 private:
  void run() {
    while (auto outgoing = get()) {
      if (!send(*outgoing)) return;
    }
  }

  std::optional<Outgoing> get() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !queue_.empty(); });
    auto front = std::move(queue_.front());
    queue_.pop_front();
    return front;
  }

  Status send(Outgoing& outgoing) {
    if (const std::optional<PrivateBatch>& batch = outgoing.unshared) {
      if (const Status shared = share(*batch, outgoing.segments); !shared) {
        // What multiprocessing.Queue does with an error in its feeder: print it and lose the item.
        fmt::print(stderr, "worker {}: batch {} is lost in the send thread: {}\n",
                   outgoing.message.worker, outgoing.message.index, to_string(shared.error()));
        return {};
      }
    }
    std::vector<UniqueFd> fds;
    for (size_t i = 0; i < outgoing.segments.size(); ++i) {
      Segment& segment = outgoing.segments[i];
      put_text(outgoing.message.segment_names.at(i), segment.name());
      outgoing.message.segment_bytes.at(i) = segment.data().size();
      if (UniqueFd fd = segment.take_fd()) fds.push_back(std::move(fd));
    }
    if (!fds.empty()) sharer_.keep(outgoing.message.key, std::move(fds));
    outgoing.segments.clear();
    return writer_.write(outgoing.message);
  }

  Status share(const PrivateBatch& batch, std::vector<Segment>& segments) {
    const auto labels = std::as_bytes(batch.labels);
    DLP_TRY(segments, maker_.make_pair(batch.samples.size(), labels.size()));
    std::memcpy(segments[0].data().data(), batch.samples.data(), batch.samples.size());
    std::memcpy(segments[1].data().data(), labels.data(), labels.size());
    return {};
  }

  ResultWriter writer_;
  Sharer& sharer_;
  SegmentMaker& maker_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::optional<Outgoing>> queue_;
  std::thread thread_;
};

// Adds `count` descriptors of that kind; a socket or pipe comes in pairs.
Status open_descriptors(std::string_view kind, uint64_t count, std::vector<UniqueFd>& opened) {
  for (uint64_t made = 0; made < count;) {
    std::array<int, 2> fds = {-1, -1};
    int failed = 0;
    if (kind == "socket") {
      failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data());
    } else if (kind == "pipe") {
      failed = pipe2(fds.data(), O_CLOEXEC);
    } else {
      fds[0] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
      failed = fds[0] < 0 ? -1 : 0;
    }
    if (failed != 0) return os_failure("open one more " + std::string(kind));
    for (const int fd : fds) {
      if (fd < 0) continue;
      opened.emplace_back(fd);
      ++made;
    }
  }
  return {};
}

// Waits for a task as PyTorch's worker does: in poll(2), with its status check interval
// (MP_STATUS_CHECK_INTERVAL, torch/utils/data/_utils/__init__.py) as the limit. From outside an
// idle worker so looks like one, and unlike one that reads its data from a pipe.
void wait_for_task(int tasks) {
  constexpr int kStatusCheckMs = 5000;
  while (!becomes_readable(tasks, kStatusCheckMs)) {
  }
}

/// The worker's main thread.
class Worker {
 public:
  Worker(const WorkerState& state, const LoaderOptions& options, const FaultEffects& effects,
         ResultWriter writer)
      : state_(state),
        options_(options),
        effects_(effects),
        samples_(state.images, options.plan),
        memory_(effects, state.worker,
                sample_bytes(options.plan) * static_cast<uint64_t>(options.plan.batch_size)),
        maker_(state, {.strategy = options.plan.sharing_strategy,
                       .reserve = !effects.sparse_segments,
                       .leaves_refused = effects.shm.has_value()}),
        sharer_(state.fds[kSharer]),
        feeder_(writer, sharer_, maker_) {}

  Status run() {
    for (;;) {
      TaskHeader task;
      wait_for_task(state_.fds[kTasks]);
      DLP_TRY(const ReadOutcome outcome, read_whole(state_.fds[kTasks], writable_bytes_of(task)));
      if (outcome == ReadOutcome::kEndOfFile) return {};
      std::vector<uint32_t> images(task.samples);
      DLP_TRY([[maybe_unused]] const ReadOutcome rest,
              read_whole(state_.fds[kTasks], std::as_writable_bytes(std::span(images))));
      do_task(task, images);
    }
  }

 private:
  void do_task(const TaskHeader& task, std::span<const uint32_t> images) {
    memory_.before_batch();
    const double start = monotonic_seconds();
    Outgoing outgoing;
    ResultMessage& message = outgoing.message;
    message.worker = state_.worker;
    message.epoch = task.epoch;
    message.index = task.index;
    message.samples = task.samples;
    message.key = next_key_++;
    Status collated = strike(task.index);
    if (collated) collated = leak(task.index);
    if (collated) collated = collate(task, images, outgoing);
    filter(static_cast<int>(task.samples));
    if (!collated) {
      message.kind = ResultKind::kFailed;
      put_text(message.text, to_string(collated.error()));
      outgoing.segments.clear();
      outgoing.unshared.reset();
    }
    message.fetch_s = monotonic_seconds() - start;
    feeder_.put(std::move(outgoing));
  }

  // Once: what returns was no hang, and no death.
  Status strike(int batch) {
    const bool is_here = effects_.worker == state_.worker && batch >= effects_.after;
    if (!is_here || std::exchange(was_struck_, true)) return {};
    DLP_CHECK(hang_in_worker(effects_, state_.fds[kDeadLock]));
    return die_in_worker(effects_);
  }

  Status leak(int batch) {
    const auto* fault = effects_.as<DescriptorLeak>();
    const bool is_here =
        fault != nullptr && effects_.worker == state_.worker && batch >= effects_.after;
    if (!is_here) return {};
    return open_descriptors(fault->kind, fault->per_batch, leaked_);
  }

  // Its threads are started in this process: fork would not copy them.
  void filter(int samples) {
    const auto* teams = effects_.as<ThreadTeams>();
    if (teams == nullptr) return;
    if (!team_) team_.emplace(threads_of_library(teams->threads));
    filter_samples(*team_, samples);
  }

  Status collate(const TaskHeader& task, std::span<const uint32_t> images, Outgoing& outgoing) {
    if (effects_.kind == FaultKind::kBatchLostInWorker) {
      DLP_TRY(outgoing.unshared, make_private_batch(options_.plan, static_cast<int>(task.samples)));
      return fill(task, images, outgoing.unshared->samples, outgoing.unshared->labels);
    }
    const uint64_t label_bytes = images.size() * sizeof(int64_t);
    DLP_TRY(outgoing.segments,
            maker_.make_pair(images.size() * sample_bytes(options_.plan), label_bytes));
    const std::span<std::byte> labels = outgoing.segments[1].data();
    // A mapping is page-aligned, and 64 bytes more under file_system.
    const std::span typed(reinterpret_cast<int64_t*>(labels.data()),
                          images.size());  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
    return fill(task, images, outgoing.segments[0].data(), typed);
  }

  Status fill(const TaskHeader& task, std::span<const uint32_t> images,
              std::span<std::byte> samples, std::span<int64_t> labels) {
    std::unique_lock<std::mutex> lock;
    if (state_.lock != nullptr) lock = std::unique_lock(*state_.lock);
    return fill_batch(samples_, {options_.seed, task.epoch, task.first_position}, images,
                      {samples, labels},
                      [this](uint32_t image, const std::string& why) { report(image, why); });
  }

  void report(uint32_t image, const std::string& why) {
    if (!broken_.insert(image).second) return;
    Outgoing outgoing;
    outgoing.message.kind = ResultKind::kBrokenImage;
    outgoing.message.image = image;
    put_text(outgoing.message.text, why);
    feeder_.put(std::move(outgoing));
  }

  const WorkerState& state_;
  const LoaderOptions& options_;
  const FaultEffects& effects_;
  bool was_struck_ = false;
  std::vector<UniqueFd> leaked_;
  std::optional<ThreadTeam> team_;
  SampleMaker samples_;
  MemoryFault memory_;
  SegmentMaker maker_;
  Sharer sharer_;
  Feeder feeder_;
  std::set<uint32_t> broken_;
  uint64_t next_key_ = 0;
};

}  // namespace

std::optional<UnsendablePart> unsendable_part(const WorkerState& state) {
  if (state.lock == nullptr) return std::nullopt;
  return UnsendablePart{.path = "dataset.lock", .type = "std::mutex"};
}

Expected<std::vector<uint8_t>> encode_state(const WorkerState& state) {
  if (const auto part = unsendable_part(state)) {
    return failure(ErrorCode::kUnsupported,
                   part->path + " (" + part->type +
                       ") is in this process's memory and cannot be sent to another program");
  }
  return nlohmann::json::to_cbor({{"args", state.args},
                                  {"worker", state.worker},
                                  {"random", state.random},
                                  {"fds", state.fds},
                                  {"generation", state.generation},
                                  {"paths", state.images.paths()},
                                  {"offsets", state.images.offsets()}});
}

WorkerState decode_state(const std::vector<uint8_t>& bytes) {
  const nlohmann::json json = nlohmann::json::from_cbor(bytes);
  WorkerState state;
  json.at("args").get_to(state.args);
  json.at("worker").get_to(state.worker);
  json.at("random").get_to(state.random);
  json.at("fds").get_to(state.fds);
  json.at("generation").get_to(state.generation);
  const auto offsets = json.at("offsets").get<std::vector<uint64_t>>();
  state.images = offsets.empty() ? ImageSource(json.at("paths").get<std::vector<std::string>>())
                                 : ImageSource(UniqueFd(), offsets);
  return state;
}

int run_worker(WorkerState state) {
  set_process_name("dlp-worker");
  install_worker_handlers();
  use_no_opencv_threads();
  const auto report = [&](const Error& error) {
    fmt::print(stderr, "dlprobe-reference-loader: worker {}: {}\n", state.worker, to_string(error));
    return 1;
  };
  const auto command_line = parse_command_line(state.args);
  if (!command_line) return report(command_line.error());
  const LoaderOptions& options = command_line->options;
  const auto effects = effects_of(options.fault, options.plan);
  if (!effects) return report(effects.error());
  // A worker that does not do so is what breaks.
  if (effects->kind != FaultKind::kForkLostThreadPool) use_torch_threads(1);
  const auto writer = ResultWriter::open(state.fds[kResults], state.fds[kResultLock]);
  if (!writer) return report(writer.error());
  const Status ended = Worker(state, options, *effects, *writer).run();
  return ended ? 0 : report(ended.error());
}

}  // namespace dlprobe::loader
