#include "tools/reference_loader/run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <source_location>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "lib/model/shm_forecast.h"
#include "lib/os/clock.h"
#include "lib/proc/host_memory.h"
#include "tools/reference_loader/death.h"
#include "tools/reference_loader/fault_scene.h"
#include "tools/reference_loader/hang.h"
#include "tools/reference_loader/image_source.h"
#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/loader.h"
#include "tools/reference_loader/memory_fault.h"
#include "tools/reference_loader/progress.h"
#include "tools/reference_loader/shm_manager.h"
#include "tools/reference_loader/signals.h"
#include "tools/reference_loader/start_fault.h"
#include "tools/reference_loader/trainer.h"
#include "tools/reference_loader/transform.h"

namespace dlprobe::loader {
namespace {

// Stands still for that long, or until the loader is asked to end.
void pause_for(std::chrono::milliseconds span) {
  becomes_readable(stop_fd(), static_cast<int>(span.count()));
}

/// The training loop: takes batches, does steps, tells of them.
class TrainingLoop {
 public:
  TrainingLoop(const LoaderSetup& setup, Loader& loader, Trainer& trainer)
      : setup_(setup), loader_(loader), trainer_(trainer) {}

  Status run() {
    for (int epoch = 0; epoch < setup_.options.plan.epochs; ++epoch) {
      DLP_CHECK(run_epoch(epoch));
    }
    return {};
  }

  LoaderDone account() const {
    return {.at = SystemClock().now(),
            .images = images_,
            .seconds = last_batch_at_ - loader_.started_at(),
            .first_batch_s = first_batch_at_ - loader_.started_at(),
            .broken_images = loader_.broken_images()};
  }

 private:
  Status run_epoch(int epoch) {
    // Without a fault the run ends as in the middle of an epoch: the loop takes no more, and
    // prefetching goes on to its end. That is when a loader has most in shared memory, which a
    // loop that is faster than its workers would never show.
    const bool shows_peak =
        setup_.options.plan.fault.empty() && epoch + 1 == setup_.options.plan.epochs;
    DLP_CHECK(loader_.begin_epoch(epoch, shows_peak));
    LoadedBatch batch;
    for (;;) {
      const double asked = monotonic_seconds();
      DLP_TRY(const Taken taken, take(batch));
      if (taken == Taken::kEndOfEpoch) {
        return shows_peak ? show_peak() : Status();
      }
      const double got = monotonic_seconds();
      if (images_ == 0) first_batch_at_ = got;
      StepTimes times;
      if (setup_.options.train) {
        DLP_TRY(times, trainer_.step(batch.tensors));
      }
      tell(batch, got - asked, times);
      images_ += static_cast<uint64_t>(batch.samples);
      last_batch_at_ = monotonic_seconds();
      ++batches_;
      DLP_CHECK(make_fault(batch));
      if (is_over()) return {};
    }
  }

  // A batch that is there already needs nobody to make it.
  Expected<Taken> take(LoadedBatch& batch) {
    if (!setup_.options.repeats_batch || batch.tensors == nullptr) return loader_.next(batch);
    if (stop_signal() != 0) return failure(ErrorCode::kTimeout, "the loader was asked to end");
    ++batch.index;
    return batch.index < loader_.batches_per_epoch() ? Taken::kBatch : Taken::kEndOfEpoch;
  }

  Status show_peak() {
    if (setup_.options.plan.workers == 0) return {};
    DLP_CHECK(loader_.wait_for_full_prefetch());
    pause_for(std::chrono::milliseconds(250));  // longer than from one look of dlprobe to the next
    return {};
  }

  void tell(const LoadedBatch& batch, double wait_s, const StepTimes& times) {
    std::optional<BatchProof> proof;
    if (setup_.options.verify) {
      proof = BatchProof{labels_of(batch.tensors), checksum_of(batch.tensors)};
    }
    setup_.progress.batch({.at = SystemClock().now(),
                           .epoch = batch.epoch,
                           .index = batch.index,
                           .worker = batch.worker,
                           .samples = batch.samples,
                           .bytes = batch.bytes,
                           .wait_s = wait_s,
                           .fetch_s = batch.fetch_s,
                           .copy_s = batch.pin_s + times.copy_s,
                           .step_s = times.step_s},
                          proof ? &*proof : nullptr);
  }

  Status make_fault(const LoadedBatch& batch) {
    const LoopFault& fault = setup_.effects.loop;
    // Where the loop pauses, it keeps the batches just before, so that the pause is what shows it.
    const bool keeps = batches_ > fault.stall_after - fault.keep_batches &&
                       std::cmp_less(kept_.size(), fault.keep_batches);
    if (keeps) kept_.push_back(batch.tensors);
    make_hang();
    DLP_CHECK(make_death());
    if (const auto* growth = setup_.effects.as<Growth>()) pause_for(growth->step_pause);
    if (batches_ == fault.stall_after) {
      setup_.progress.event("fault", "the training loop pauses until prefetching is complete");
      DLP_CHECK(loader_.wait_for_full_prefetch());
    }
    if (fault.abandon_every > 0 && batches_ % fault.abandon_every == 0 &&
        abandoned_ < fault.abandon_times) {
      ++abandoned_;
      setup_.progress.event("fault", "worker 0 is killed, and a new set of workers is started");
      DLP_CHECK(loader_.abandon_workers());
      if (abandoned_ == fault.abandon_times) {
        // Longer than any manager takes to clean up: what is still there then stays.
        setup_.progress.event("fault", "the training loop pauses for 5 s");
        pause_for(std::chrono::seconds(5));
      }
    }
    return {};
  }

  bool is_over() const {
    const auto* growth = setup_.effects.as<Growth>();
    return growth != nullptr &&
           monotonic_seconds() - loader_.started_at() >= static_cast<double>(growth->lasts.count());
  }

  void make_hang() {
    const FaultEffects& effects = setup_.effects;
    if (batches_ != effects.after) return;
    if (effects.kind == FaultKind::kWorkerStopped) {
      setup_.progress.event("fault", fmt::format("worker {} is stopped", effects.worker));
      loader_.stop_worker(effects.worker);
    } else if (effects.kind == FaultKind::kConsumerStuck) {
      setup_.progress.event("fault", "the training loop waits for something that does not come");
      hang_in_training_loop();
    }
  }

  Status make_death() const {
    const FaultEffects& effects = setup_.effects;
    const bool is_now = effects.kind == FaultKind::kKilledBySignal && batches_ == effects.after;
    const auto worker = is_now ? loader_.worker_pid(effects.worker) : std::nullopt;
    if (!worker) return {};
    const int signal = effects.as<Death>()->signal;
    pause_for(kTimeToBeKnown);
    DLP_TRY(const pid_t sender, have_another_process_kill(*worker, signal));
    setup_.progress.event("fault", fmt::format("process {} has sent signal {} to worker {}", sender,
                                               signal, effects.worker));
    return {};
  }

  const LoaderSetup& setup_;
  Loader& loader_;
  Trainer& trainer_;
  std::vector<BatchHandle> kept_;
  uint64_t images_ = 0;
  int batches_ = 0;
  int abandoned_ = 0;
  double first_batch_at_ = 0;
  double last_batch_at_ = 0;
};

int fail(Progress& progress, const Error& error, ExitCode code) {
  const std::string text = to_string(error);
  complain(text);
  progress.event("error", text);
  return code;
}

Expected<ImageSource> open_images(const LoaderOptions& options, Progress& progress) {
  if (!options.plan.data_dir.empty()) {
    auto images = images_of_folder(options.plan.data_dir, options.plan.data_sample);
    const bool has_none = !images && images.error().code == ErrorCode::kNotFound;
    if (!has_none || options.plan.data_sample == 0) return images;
    progress.event("no-image", to_string(images.error()));
  }
  return make_images({.count = options.images,
                      .height = options.image_height,
                      .width = options.image_width,
                      .seed = options.seed},
                     [] { return stop_signal() != 0; });
}

void print_summary(const LoaderDone& done, const Trainer& trainer) {
  const double rate = done.seconds > 0 ? static_cast<double>(done.images) / done.seconds : 0.0;
  const std::string broken =
      done.broken_images > 0 ? fmt::format(", {} broken images replaced", done.broken_images) : "";
  fmt::print("{} images in {:.2f} s on {}: {:.1f} images/s, first batch after {:.2f} s{}\n",
             done.images, done.seconds, trainer.device(), rate, done.first_batch_s, broken);
}

int train(const LoaderSetup& setup, Trainer& trainer) {
  Progress& progress = setup.progress;
  const HangPreparation preparation(setup.effects);
  fill_memory_to_share(setup.effects);
  do_own_work(setup.effects);
  Loader loader(setup, trainer.is_cuda());
  progress.hello({.at = SystemClock().now(),
                  .device = trainer.device(),
                  .device_name = trainer.device_name(),
                  .libtorch = libtorch_version(),
                  .opencv = opencv_version(),
                  .images = setup.images.size(),
                  .batches_per_epoch = static_cast<uint64_t>(loader.batches_per_epoch())});
  progress.start({.kind = StartEventKind::kLoaderMade,
                  .method = std::string(to_string(setup.options.plan.start_method)),
                  .workers = setup.options.plan.workers,
                  .prefetch_factor = setup.options.plan.prefetch_factor});
  if (setup.options.plan.pin_memory && !trainer.is_cuda()) {
    progress.event("note", "without a CUDA device the pin-memory thread copies to ordinary memory");
  }
  TrainingLoop loop(setup, loader, trainer);
  const Status ended = loop.run();
  if (!ended) {
    // As a Python trainer takes a while to end after a failure; what failed can be seen as long.
    const bool is_to_be_seen = setup.effects.shm || setup.effects.as<Death>() != nullptr ||
                               setup.effects.as<StartFault>() != nullptr;
    if (is_to_be_seen) pause_for(std::chrono::milliseconds(500));
    loader.stop(std::chrono::milliseconds(300));
    if (stop_signal() != 0) return kExitFailed;
    return fail(progress, ended.error(), kExitFailed);
  }
  // Longer than any manager or tracker takes to clean up: what is still there then stays.
  if (setup.effects.litter.files + setup.effects.litter.semaphores > 0) {
    pause_for(std::chrono::seconds(4));
  }
  const LoaderDone done = loop.account();
  loader.stop(std::chrono::seconds(5));
  progress.done(done);
  // With progress lines somebody else does the telling, and owns stdout.
  if (setup.options.progress_fd < 0) print_summary(done, trainer);
  return kExitOk;
}

int run_with_data(const Program& program) {
  const LoaderOptions& options = program.options;
  Progress& progress = program.progress;
  std::unique_ptr<ShmManager> manager;
  if (options.plan.sharing_strategy == SharingStrategy::kFileSystem && options.plan.workers > 0) {
    auto started = ShmManager::start();
    if (!started) return fail(progress, started.error(), kExitFailed);
    manager = std::move(*started);
  }
  auto trainer = Trainer::create(options);
  if (!trainer) {
    const bool usage = trainer.error().code == ErrorCode::kInvalid;
    return fail(progress, trainer.error(), usage ? kExitUsage : kExitFailed);
  }
  auto images = open_images(options, progress);
  if (!images) {
    if (stop_signal() != 0) return kExitFailed;
    const bool usage = images.error().code == ErrorCode::kNotFound;
    return fail(progress, images.error(), usage ? kExitUsage : kExitFailed);
  }
  // As in a real script, the threads of OpenCV and libtorch run before the workers are forked.
  use_opencv_threads();
  if (options.train) {
    const Status warm = (*trainer)->warm_up(options.plan);
    if (!warm) return fail(progress, warm.error(), kExitFailed);
  }
  const LoaderSetup setup{program, *images, manager.get(), std::random_device()()};
  return train(setup, **trainer);
}

/// What the machine's /dev/shm has room for: more cannot be taken, a shortage is an error.
uint64_t free_shm_bytes(uint64_t otherwise) {
  struct statvfs status{};
  if (statvfs("/dev/shm", &status) != 0 || status.f_blocks == 0) return otherwise;
  return uint64_t{status.f_bavail} * status.f_frsize;
}

uint64_t most_bytes(const LoaderPlan& plan, const FaultEffects& effects) {
  const auto* start = effects.as<StartFault>();
  if (start != nullptr && start->own_memory > 0) {
    // Where workers are forked they share it; it must fit under every start method.
    const auto processes = static_cast<uint64_t>(plan.workers) + 1;
    return start->own_memory > UINT64_MAX / processes ? UINT64_MAX : start->own_memory * processes;
  }
  const ShmForecast forecast = forecast_shm(plan, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  if (plan.workers == 0) return 2 * forecast.batch_bytes;
  const auto* death = effects.as<Death>();
  if (death != nullptr && death->grow_bytes > 0) return death->grow_bytes;
  if (!effects.shm) return std::min(forecast.bytes, free_shm_bytes(forecast.bytes));
  const bool piles_up = effects.loop.keep_batches > 0 || effects.loop.abandon_times > 0 ||
                        effects.as<Growth>() != nullptr;
  const uint64_t litter = effects.litter.bytes + effects.litter.held_bytes;
  const uint64_t room = effects.shm->size_bytes;
  return std::min(room, piles_up ? room : litter + forecast.bytes);
}

// kInvalid if the plan could fill this machine's memory: pages of /dev/shm cannot be reclaimed,
// and a tool that looks for trouble must not drive the kernel to kill other processes.
Status check_memory(const LoaderPlan& plan, const FaultEffects& effects) {
  const auto memory = read_proc("meminfo", parse_meminfo);
  if (!memory) return {};
  const uint64_t available = memory->available_bytes;
  const uint64_t most = most_bytes(plan, effects);
  const uint64_t room = available / 5 * 4;  // the rest of the machine lives on
  if (most <= room) return {};
  return failure(ErrorCode::kInvalid,
                 fmt::format("these options take up to {} of memory, more than four fifths ({}) of "
                             "the {} available: give a smaller --batch-size, --prefetch-factor, "
                             "--workers or fault",
                             format_bytes(most), format_bytes(room), format_bytes(available)));
}

// OpenMP reads its settings when it is loaded.
void start_again_with_spinning_threads(const std::vector<std::string>& args) {
  constexpr const char* kVariable = "OMP_WAIT_POLICY";
  const char* now = getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
  if (now != nullptr && std::string_view(now) == "active") return;
  setenv(kVariable, "active", 1);  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> own(args);
  own.insert(own.begin(), "dlprobe-reference-loader");
  std::vector<char*> arguments;
  arguments.reserve(own.size() + 1);
  for (std::string& argument : own)
    arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
}

// Those it starts are not to hold this worker's ends of the queues.
void keep_to_oneself(const WorkerState& state) {
  for (const int fd : state.fds) {
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

int begin_again(const LoaderOptions& options, const FaultEffects& effects,
                const WorkerState& state) {
  Progress progress(state.fds[kProgress], Progress::Tells::kStarts);
  if (effects.kind == FaultKind::kMainModuleReimported) {
    const OwnWork work = do_own_work(effects);
    progress.start({.kind = StartEventKind::kMainImported,
                    .method = std::string(to_string(options.plan.start_method)),
                    .file = source_file(std::source_location::current()),
                    .is_main = true,
                    .seconds = work.seconds,
                    .bytes = work.bytes});
    return kExitOk;
  }
  if (effects.kind == FaultKind::kUnpicklableObject) return kExitOk;
  install_stop_handlers();
  keep_to_oneself(state);
  return run_with_data({.options = options,
                        .effects = effects,
                        .args = state.args,
                        .progress = progress,
                        .chain = {.generation = state.generation,
                                  .progress = state.fds[kProgress],
                                  .tokens = state.fds[kTokens]}});
}

}  // namespace

void complain(const std::string& text) {
  fmt::print(stderr, "dlprobe-reference-loader: {}\n", text);
}

int run_loader(const LoaderOptions& options, const std::vector<std::string>& args) {
  const auto effects = effects_of(options.fault, options.plan);
  if (effects && effects->as<Hang>() != nullptr && effects->as<Hang>()->spins)
    start_again_with_spinning_threads(args);
  set_process_name("dlp-loader");
  install_stop_handlers();
  if (options.progress_fd >= 0 && fcntl(options.progress_fd, F_GETFD) < 0) {
    complain("--progress-fd " + std::to_string(options.progress_fd) +
             " is not an open descriptor: open it for writing before the start, for example "
             "3>progress.jsonl");
    return kExitUsage;
  }
  if (options.progress_fd > STDERR_FILENO) fcntl(options.progress_fd, F_SETFD, FD_CLOEXEC);
  Progress progress(options.progress_fd);
  if (!effects) return fail(progress, effects.error(), kExitUsage);
  const Status fits = check_memory(options.plan, *effects);
  if (!fits) return fail(progress, fits.error(), kExitUsage);
  const auto scene = FaultScene::set(*effects);
  if (!scene) return fail(progress, scene.error(), kExitUsage);
  for (const std::string& note : scene->notes())
    progress.event("fault", note);
  UniqueFd tokens;
  if (effects->kind == FaultKind::kRecursiveProcessCreation) {
    auto made = make_start_tokens();
    if (!made) return fail(progress, made.error(), kExitFailed);
    tokens = std::move(*made);
  }
  const int code = run_with_data(
      {.options = options,
       .effects = *effects,
       .args = args,
       .progress = progress,
       .chain = {.generation = 0, .progress = options.progress_fd, .tokens = tokens.get()},
       .dead_lock = scene->dead_lock()});
  if (stop_signal() != 0) die_by(stop_signal());
  return code;
}

int run_fresh_worker(WorkerState state) {
  const auto command_line = parse_command_line(state.args);
  if (!command_line) return run_worker(std::move(state));  // which says what is wrong
  const LoaderOptions& options = command_line->options;
  const auto effects = effects_of(options.fault, options.plan);
  if (effects && effects->as<StartFault>() != nullptr) {
    set_process_name("dlp-worker");
    if (const int code = begin_again(options, *effects, state); code != kExitOk) return code;
  }
  return run_worker(std::move(state));
}

}  // namespace dlprobe::loader
