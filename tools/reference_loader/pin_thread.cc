#include "tools/reference_loader/pin_thread.h"

#include <pthread.h>

#include <array>
#include <csignal>
#include <utility>

#include "tools/reference_loader/ipc.h"

namespace dlprobe::loader {
namespace {

// How long its end may take.
constexpr int kTickMs = 50;

}  // namespace

Expected<Arrival> receive(const WorkerGroup& group, const LoaderSetup& setup) {
  DLP_TRY(const ResultMessage message, group.read_result());
  Arrival arrival;
  if (message.kind == ResultKind::kBrokenImage) {
    arrival.broken_image = message.image;
    arrival.why = message.text.data();
    return arrival;
  }
  arrival.batch = {.tensors = nullptr,
                   .epoch = message.epoch,
                   .index = message.index,
                   .worker = message.worker,
                   .samples = static_cast<int>(message.samples),
                   .bytes = message.segment_bytes[0] + message.segment_bytes[1],
                   .fetch_s = message.fetch_s};
  if (message.kind == ResultKind::kFailed) {
    arrival.status = failure(ErrorCode::kIo,
                             "worker " + std::to_string(message.worker) + " could not make batch " +
                                 std::to_string(message.index) + ": " + message.text.data());
    return arrival;
  }
  std::array<ReceivedSegment, kSegmentsPerBatch> segments;
  std::vector<UniqueFd> fds;
  if (setup.manager == nullptr) {
    DLP_TRY(fds, group.fetch_fds(message.worker, message.key));
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    ReceivedSegment& segment = segments.at(i);
    segment.name = message.segment_names.at(i).data();
    segment.bytes = message.segment_bytes.at(i);
    if (setup.manager == nullptr) {
      segment.fd = std::move(fds.at(i));
    } else {
      segment.on_freed = [client = setup.manager->client(), name = segment.name] {
        client.has_freed(name);
      };
    }
  }
  auto tensors = attach_batch(setup.options.plan, arrival.batch.samples, std::move(segments));
  if (!tensors) {
    arrival.status = std::unexpected(std::move(tensors).error());
    return arrival;
  }
  arrival.batch.tensors = std::move(*tensors);
  return arrival;
}

PinThread::PinThread(const WorkerGroup& group, const LoaderSetup& setup, bool pinned)
    : group_(group), setup_(setup), pinned_(pinned) {
  // Signals are the main thread's: only there they interrupt a wait.
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PinThread::~PinThread() {
  stops_ = true;
  thread_.join();
}

bool PinThread::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return filled_.wait_for(lock, limit, [this] { return !queue_.empty(); });
}

Expected<Arrival> PinThread::take() {
  const std::scoped_lock lock(mutex_);
  Expected<Arrival> front = std::move(queue_.front());
  queue_.pop_front();
  return front;
}

void PinThread::run() {
  pthread_setname_np(pthread_self(), "dlp-pin");
  while (!stops_) {
    // As the main thread without it: for results alone, for a while.
    if (!becomes_readable(group_.results(), kTickMs)) continue;
    Expected<Arrival> arrival = pin_one();
    const bool broken = !arrival;
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(std::move(arrival));
    }
    filled_.notify_one();
    if (broken) return;
  }
}

Expected<Arrival> PinThread::pin_one() {
  DLP_TRY(Arrival arrival, receive(group_, setup_));
  if (arrival.broken_image || !arrival.status) return arrival;
  const double start = monotonic_seconds();
  auto copy = copy_batch(arrival.batch.tensors, pinned_);
  if (copy) {
    arrival.batch.tensors = std::move(*copy);
  } else {
    arrival.status = std::unexpected(std::move(copy).error());
  }
  arrival.batch.pin_s = monotonic_seconds() - start;
  return arrival;
}

}  // namespace dlprobe::loader
