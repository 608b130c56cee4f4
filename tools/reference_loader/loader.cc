#include "tools/reference_loader/loader.h"

#include <algorithm>
#include <random>
#include <utility>

#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

// A wait for full prefetch ends when nothing has arrived for so long.
constexpr std::chrono::milliseconds kQuietTime(3000);
constexpr std::chrono::milliseconds kTick(200);

int count_batches(const LoaderSetup& setup) {
  const LoaderPlan& plan = setup.options.plan;
  const auto size = static_cast<uint32_t>(plan.batch_size);
  const auto of_data = static_cast<int>((setup.images.size() + size - 1) / size);
  return std::max(plan.batches > 0 ? plan.batches : of_data, setup.effects.needs_batches);
}

}  // namespace

void Sampler::begin_epoch(int epoch) {
  epoch_ = epoch;
  pass_ = 0;
  shuffle();
}

uint32_t Sampler::next() {
  if (taken_ == order_.size()) {
    ++pass_;
    shuffle();
  }
  return order_[taken_++];
}

void Sampler::shuffle() {
  order_.resize(images_);
  for (uint32_t i = 0; i < images_; ++i)
    order_[i] = i;
  std::seed_seq mixed{seed_, seed_ >> 32, static_cast<uint64_t>(epoch_), pass_};
  std::mt19937_64 random(mixed);
  std::ranges::shuffle(order_, random);
  taken_ = 0;
}

Loader::Loader(const LoaderSetup& setup, bool pinned)
    : setup_(setup),
      pinned_(pinned),
      sampler_(setup.images.size(), setup.options.seed),
      own_samples_(setup.images, setup.options.plan),
      batches_per_epoch_(count_batches(setup)) {}

Status Loader::start_workers() {
  if (setup_.options.plan.workers == 0 || group_) return {};
  if (started_at_ == 0) started_at_ = monotonic_seconds();
  DLP_TRY(group_, WorkerGroup::start(setup_));
  if (setup_.options.plan.pin_memory) {
    pin_thread_ = std::make_unique<PinThread>(*group_, setup_, pinned_);
  }
  return {};
}

Status Loader::begin_epoch(int epoch, bool more) {
  epoch_ = epoch;
  next_task_ = 0;
  next_batch_ = 0;
  next_position_ = 0;
  sampler_.begin_epoch(epoch);
  if (started_at_ == 0 && setup_.options.plan.workers == 0) started_at_ = monotonic_seconds();
  if (!setup_.options.plan.persistent_workers) stop(std::chrono::seconds(5));
  DLP_CHECK(start_workers());
  int in_flight = setup_.options.plan.workers * setup_.options.plan.prefetch_factor;
  if (const auto* growth = setup_.effects.as<Growth>())
    in_flight = std::max(in_flight, growth->ahead);
  // A loader whose data has fewer batches than that never has so many in flight.
  more = more && setup_.options.plan.batches > in_flight;
  last_task_ = batches_per_epoch_ + (more ? in_flight : 0);
  if (setup_.effects.loop.ramp_up && in_flight > 1) --in_flight;
  for (int i = 0; i < in_flight; ++i)
    DLP_CHECK(send_next_task());
  return {};
}

std::optional<Loader::Task> Loader::make_task() {
  if (next_task_ == last_task_) return std::nullopt;
  auto samples = static_cast<uint64_t>(setup_.options.plan.batch_size);
  // Where the data alone says how long an epoch is, its last batch is what remains.
  const bool whole_data = setup_.options.plan.batches == 0 && setup_.effects.needs_batches == 0;
  if (whole_data) samples = std::min<uint64_t>(samples, setup_.images.size() - next_position_);
  Task task{.header = {.epoch = epoch_,
                       .index = next_task_++,
                       .first_position = next_position_,
                       .samples = static_cast<uint32_t>(samples)}};
  for (uint64_t i = 0; i < samples; ++i)
    task.images.push_back(sampler_.next());
  next_position_ += samples;
  return task;
}

Status Loader::send_next_task() {
  std::optional<Task> task = make_task();
  if (!task) return {};
  DLP_CHECK(send(*task));
  const int index = task->header.index;
  outstanding_.emplace(index, std::move(*task));
  return {};
}

Status Loader::send(const Task& task) {
  const int worker = task.header.index % setup_.options.plan.workers;
  if (const Status sent = group_->send_task(worker, task.header, task.images); !sent) {
    return std::unexpected(group_->explain(sent.error()));
  }
  return {};
}

Expected<LoadedBatch> Loader::load_here(const Task& task) {
  const double start = monotonic_seconds();
  const TaskHeader& header = task.header;
  DLP_TRY(PrivateBatch batch,
          make_private_batch(setup_.options.plan, static_cast<int>(header.samples)));
  DLP_CHECK(
      fill_batch(own_samples_, {setup_.options.seed, header.epoch, header.first_position},
                 task.images, {batch.samples, batch.labels},
                 [this](uint32_t image, const std::string& why) { note_broken(image, why); }));
  return LoadedBatch{.tensors = std::move(batch.tensors),
                     .epoch = header.epoch,
                     .index = header.index,
                     .worker = -1,
                     .samples = static_cast<int>(header.samples),
                     .bytes = batch.samples.size_bytes() + batch.labels.size_bytes(),
                     .fetch_s = monotonic_seconds() - start};
}

Expected<Taken> Loader::next(LoadedBatch& batch) {
  if (stop_signal() != 0) return failure(ErrorCode::kTimeout, "stopped");
  if (next_batch_ == batches_per_epoch_) return Taken::kEndOfEpoch;
  if (!group_) {
    const std::optional<Task> task = make_task();
    if (!task) return Taken::kEndOfEpoch;
    DLP_TRY(batch, load_here(*task));
    ++next_batch_;
    return Taken::kBatch;
  }
  const double started = monotonic_seconds();
  const auto limit = static_cast<double>(setup_.effects.loop.lost_batch_limit.count());
  while (!arrived_.contains(next_batch_)) {
    bool moved = false;
    DLP_CHECK(wait(kTick, moved));
    if (limit > 0 && monotonic_seconds() - started > limit) {
      return failure(ErrorCode::kTimeout,
                     "batch " + std::to_string(next_batch_) + " did not come within " +
                         std::to_string(setup_.effects.loop.lost_batch_limit.count()) +
                         " s; the fault ends here");
    }
  }
  Arrival arrival = std::move(arrived_.extract(next_batch_).mapped());
  outstanding_.erase(next_batch_++);
  DLP_CHECK(arrival.status);
  // The old batch goes before the new task: a worker makes room for its batch as soon as it has a
  // task (PyTorch's does so when all samples are read), and there is room for only so many.
  batch = std::move(arrival.batch);
  DLP_CHECK(send_next_task());
  return Taken::kBatch;
}

Status Loader::wait(std::chrono::milliseconds limit, bool& moved) {
  // As PyTorch's loader: for results alone, for a while, and then it looks after everything else
  // (_try_get_data in torch/utils/data/dataloader.py).
  if (pin_thread_) {
    moved = pin_thread_->wait(limit);
  } else {
    moved = becomes_readable(group_->results(), static_cast<int>(limit.count()));
  }
  if (stop_signal() != 0) return failure(ErrorCode::kTimeout, "stopped");
  DLP_CHECK(check_others());
  return moved ? take_arrival() : Status();
}

Status Loader::check_others() const {
  DLP_CHECK(group_->check());
  if (setup_.manager != nullptr && becomes_readable(setup_.manager->socket(), 0)) {
    return failure(ErrorCode::kVanished, "the manager of shared memory (pid " +
                                             std::to_string(setup_.manager->pid()) + ") is gone");
  }
  return {};
}

Status Loader::take_arrival() {
  Expected<Arrival> arrival = pin_thread_ ? pin_thread_->take() : receive(*group_, setup_);
  if (!arrival) return std::unexpected(group_->explain(arrival.error()));
  if (const auto broken = arrival->broken_image) {
    note_broken(*broken, arrival->why);
  } else {
    const int index = arrival->batch.index;
    arrived_.emplace(index, std::move(*arrival));
  }
  return {};
}

void Loader::note_broken(uint32_t image, const std::string& why) {
  if (!broken_.insert(image).second) return;
  setup_.progress.event("broken-image", setup_.images.name(image) + ": " + why);
}

Status Loader::wait_for_full_prefetch() {
  if (setup_.effects.loop.ramp_up) DLP_CHECK(send_next_task());
  double moved_at = monotonic_seconds();
  while (arrived_.size() < outstanding_.size()) {
    bool moved = false;
    DLP_CHECK(wait(kTick, moved));
    const double now = monotonic_seconds();
    if (moved) moved_at = now;
    if (now - moved_at > std::chrono::duration<double>(kQuietTime).count()) break;
  }
  return {};
}

Status Loader::abandon_workers() {
  // What has been received is taken care of; what waits in the queue is what a crash abandons.
  const size_t expected = outstanding_.size() - arrived_.size();
  for (int i = 0; i < 600 && group_->waiting_results() < expected; ++i) {
    DLP_CHECK(check_others());
    becomes_readable(stop_fd(), 50);
    if (stop_signal() != 0) return failure(ErrorCode::kTimeout, "stopped");
  }
  pin_thread_.reset();
  DLP_CHECK(group_->kill_worker(0));
  group_->leave_segments();
  group_.reset();
  DLP_CHECK(start_workers());
  for (const auto& [index, task] : outstanding_) {
    if (!arrived_.contains(index)) DLP_CHECK(send(task));
  }
  return {};
}

void Loader::stop(std::chrono::milliseconds grace) {
  pin_thread_.reset();
  if (group_) group_->stop(grace);
  group_.reset();
  arrived_.clear();
  outstanding_.clear();
}

}  // namespace dlprobe::loader
