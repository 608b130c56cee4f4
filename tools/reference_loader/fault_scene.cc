#include "tools/reference_loader/fault_scene.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "lib/os/private_shm.h"
#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/result_queue.h"
#include "tools/reference_loader/segment.h"
#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

Status enter_private_mount(const PrivateShm& shm) {
  auto entered = enter_private_shm(shm);
  if (!entered) {
    entered.error().context = "a fault wants a /dev/shm of its own: " + entered.error().context;
  }
  return entered;
}

/// Makes `bytes` of named segments, as many files as given, and returns their names.
Expected<std::vector<std::string>> make_segments(uint64_t bytes, uint64_t files) {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < files; ++i) {
    const uint64_t size = bytes / files;
    DLP_TRY(const Segment segment,
            Segment::create(segment_name(getpid(), 1, i), std::max<uint64_t>(size, 1),
                            {.strategy = SharingStrategy::kFileSystem, .reserve = true}));
    names.push_back(segment.name());
  }
  return names;
}

Status make_semaphores(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    // multiprocessing's names: mp- and eight characters.
    const std::string name =
        fmt::format("/mp-{:08x}", static_cast<uint32_t>(getpid()) << 20 | static_cast<uint32_t>(i));
    if (sem_open(name.c_str(), O_CREAT | O_EXCL, 0600, 1) == SEM_FAILED) {
      return os_failure("make semaphore " + name);
    }
  }
  return {};
}

/// Runs `litter` in a process that is then killed, as a job is that cleans nothing up.
Expected<pid_t> litter_and_die(const std::function<Status()>& litter) {
  DLP_TRY(Pipe pipe, make_pipe());
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return os_failure("fork a process for the fault");
  if (pid == 0) {
    die_with_parent(parent);
    const Status done = litter();
    if (!done) [[maybe_unused]]
      const Status told = write_all(pipe.write_end.get(), to_string(done.error()));
    raise(SIGKILL);
  }
  pipe.write_end.reset();
  std::array<char, 512> text{};
  // The lock that `litter` may take is held by the process that dies.
  // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
  const ssize_t got = read(pipe.read_end.get(), text.data(), text.size() - 1);
  waitpid(pid, nullptr, 0);
  if (got > 0) return failure(ErrorCode::kIo, text.data());
  return pid;
}

// Of this process and of all that it starts.
Status limit_descriptors(uint64_t soft) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return os_failure("getrlimit");
  limit.rlim_cur = std::min<rlim_t>(soft, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return os_failure("setrlimit RLIMIT_NOFILE");
  return {};
}

/// The other job: segments of its own until `life` ends.
[[noreturn]] void be_other_job(uint64_t bytes, Pipe ready, Pipe life) {
  set_process_name("other-job");
  close_all_except({ready.write_end.get(), life.read_end.get()});
  std::vector<Segment> held;
  std::string problem;
  for (uint64_t made = 0; made < bytes && problem.empty(); made += kPieceBytes) {
    auto piece = Segment::create(segment_name(getpid(), 1, held.size()),
                                 std::min(kPieceBytes, bytes - made) - kRefcountHeaderBytes,
                                 {.strategy = SharingStrategy::kFileSystem, .reserve = true});
    if (piece) {
      held.push_back(std::move(*piece));
    } else {
      problem = to_string(piece.error());
    }
  }
  const std::string answer = problem.empty() ? "pid " + std::to_string(getpid()) : problem;
  [[maybe_unused]] const Status told = write_all(ready.write_end.get(), answer);
  ready.write_end.reset();
  // Nobody writes: this returns when the loader has closed its end or is gone.
  char nothing = 0;
  [[maybe_unused]] const ssize_t got = read(life.read_end.get(), &nothing, 1);
  for (const Segment& segment : held)
    shm_unlink(segment.name().c_str());
  _exit(0);
}

struct OtherJob {
  UniqueFd life;
  std::string who;  ///< "pid 42"
};

Expected<OtherJob> start_other_job(uint64_t bytes) {
  DLP_TRY(Pipe ready, make_pipe());
  DLP_TRY(Pipe life, make_pipe());
  const pid_t middle = fork();
  if (middle < 0) return os_failure("fork a process for the fault");
  if (middle == 0) {
    // Its own session, and no child of the loader.
    setsid();
    use_null_stdio();
    if (fork() != 0) _exit(0);
    be_other_job(bytes, std::move(ready), std::move(life));
  }
  waitpid(middle, nullptr, 0);
  ready.write_end.reset();
  std::array<char, 512> text{};
  const ssize_t got = read(ready.read_end.get(), text.data(), text.size() - 1);
  const std::string_view answer(text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (!answer.starts_with("pid ")) {
    return failure(ErrorCode::kIo,
                   "the other job of the fault could not start: " + std::string(answer));
  }
  return OtherJob{.life = std::move(life.write_end), .who = std::string(answer)};
}

}  // namespace

Expected<FaultScene> FaultScene::set(const FaultEffects& effects) {
  FaultScene scene;
  if (effects.kind == FaultKind::kLockHolderDead) {
    DLP_TRY(scene.dead_lock_, make_lock_file(HolderDeath::kIsForgotten));
    DLP_TRY(const pid_t pid, litter_and_die([&]() -> Status {
              DLP_TRY(pthread_mutex_t* const lock, map_lock(scene.dead_lock_.get()));
              pthread_mutex_lock(lock);
              return {};
            }));
    scene.notes_.push_back("process " + std::to_string(pid) + " was killed while it held a lock");
  }
  if (effects.open_files > 0) {
    DLP_CHECK(limit_descriptors(effects.open_files));
    scene.notes_.push_back("each process may have " + std::to_string(effects.open_files) +
                           " descriptors open");
  }
  if (!effects.shm) return scene;
  const Litter& litter = effects.litter;
  DLP_CHECK(enter_private_mount(*effects.shm));
  std::string mounted = "a private /dev/shm of " + format_bytes(effects.shm->size_bytes);
  if (effects.shm->inodes > 0) mounted += " and " + std::to_string(effects.shm->inodes) + " inodes";
  scene.notes_.push_back(std::move(mounted));
  if (litter.files > 0) {
    DLP_TRY(const pid_t pid, litter_and_die([&]() -> Status {
              DLP_TRY([[maybe_unused]] const auto names, make_segments(litter.bytes, litter.files));
              return {};
            }));
    scene.notes_.push_back("process " + std::to_string(pid) + " was killed and left " +
                           std::to_string(litter.files) + " segments of " +
                           format_bytes(litter.bytes) + " in all");
  }
  if (litter.semaphores > 0) {
    DLP_TRY(const pid_t pid, litter_and_die([&] { return make_semaphores(litter.semaphores); }));
    scene.notes_.push_back("process " + std::to_string(pid) + " was killed and left " +
                           std::to_string(litter.semaphores) + " semaphores");
  }
  if (litter.held_bytes > 0) {
    DLP_TRY(OtherJob job, start_other_job(litter.held_bytes));
    scene.notes_.push_back("another job (" + job.who + ") holds " +
                           format_bytes(litter.held_bytes));
    scene.other_job_ = std::move(job.life);
  }
  return scene;
}

}  // namespace dlprobe::loader
