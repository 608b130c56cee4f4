#include "tools/reference_loader/worker_group.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "tools/reference_loader/segment.h"
#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

// How long a worker may take to hand over descriptors; it has a thread for nothing else.
constexpr std::chrono::seconds kSharerLimit(60);

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* words = sigdescr_np(signal);
  return "signal " + std::to_string(signal) + " (SIG" + (name != nullptr ? name : "?") + ", " +
         (words != nullptr ? words : "unknown") + ")";
}

}  // namespace

Expected<std::unique_ptr<WorkerGroup>> WorkerGroup::start(const LoaderSetup& setup,
                                                          std::source_location where) {
  const StartMethod method = setup.options.plan.start_method;
  DLP_CHECK(check_may_start(setup.effects.kind, setup.chain, method, setup.progress, where));
  std::unique_ptr<WorkerGroup> group(new WorkerGroup(setup));
  if (setup.effects.kind == FaultKind::kUnpicklableObject) {
    group->dataset_lock_ = std::make_unique<std::mutex>();
  }
  DLP_TRY(group->results_, make_pipe());
  DLP_TRY(group->lock_file_, make_lock_file(HolderDeath::kIsTold));
  if (method == StartMethod::kForkserver) DLP_CHECK(take_start_token(setup.chain));
  DLP_TRY(group->launcher_, Launcher::start(method));
  for (int worker = 0; worker < setup.options.plan.workers; ++worker) {
    DLP_CHECK(group->start_member(worker));
  }
  // From here on an end of file on the result queue means that every worker is gone.
  group->results_.write_end.reset();
  return group;
}

WorkerGroup::~WorkerGroup() {
  stop(std::chrono::milliseconds(0));
  if (leave_segments_) return;
  for (const Member& member : members_)
    remove_segments_of(member.pid, setup_.random);
}

Status WorkerGroup::start_member(int worker) {
  const bool by_descriptor =
      setup_.options.plan.sharing_strategy == SharingStrategy::kFileDescriptor;
  DLP_TRY(Pipe tasks, make_pipe());
  std::pair<UniqueFd, UniqueFd> sharer;
  if (by_descriptor) {
    DLP_TRY(sharer, make_socket_pair(SOCK_SEQPACKET));
  }
  UniqueFd manager;
  if (setup_.manager != nullptr) {
    DLP_TRY(manager, setup_.manager->connect());
  }
  WorkerState state{.args = setup_.args,
                    .worker = worker,
                    .random = setup_.random,
                    .images = setup_.images.share(-1),
                    .generation = setup_.chain.generation + 1,
                    .lock = dataset_lock_.get()};
  state.fds[kTasks] = tasks.read_end.get();
  state.fds[kResults] = results_.write_end.get();
  state.fds[kResultLock] = lock_file_.get();
  state.fds[kSharer] = sharer.second.get();
  state.fds[kManager] = manager.get();
  state.fds[kImages] = setup_.images.file();
  state.fds[kDeadLock] = setup_.dead_lock;
  if (setup_.effects.as<StartFault>() != nullptr) {
    state.fds[kProgress] = setup_.chain.progress;
    state.fds[kTokens] = setup_.chain.tokens;
  }
  DLP_TRY(const pid_t pid, start_process(state));
  members_.push_back({.pid = pid,
                      .tasks = std::move(tasks.write_end),
                      .sharer = std::move(sharer.first),
                      .ended = false});
  return {};
}

Expected<pid_t> WorkerGroup::start_process(const WorkerState& state) {
  const std::string method(to_string(setup_.options.plan.start_method));
  DLP_CHECK(take_start_token(setup_.chain));
  const Expected<pid_t> pid = launcher_->start_worker(state);
  if (pid) {
    setup_.progress.start({.kind = StartEventKind::kStarted, .method = method, .child_pid = *pid});
    return *pid;
  }
  const auto part = unsendable_part(state);
  if (part && pid.error().code == ErrorCode::kUnsupported) {
    setup_.progress.start({.kind = StartEventKind::kRefused,
                           .method = method,
                           .cause = StartRefusal::kUnpicklable,
                           .message = to_string(pid.error()),
                           .path = part->path,
                           .type = part->type});
  }
  return std::unexpected(pid.error());
}

Status WorkerGroup::send_task(int worker, const TaskHeader& task,
                              const std::vector<uint32_t>& images) {
  const int queue = members_.at(static_cast<size_t>(worker)).tasks.get();
  std::vector<std::byte> message(sizeof task + images.size() * sizeof(uint32_t));
  std::memcpy(message.data(), &task, sizeof task);
  std::memcpy(message.data() + sizeof task, images.data(), images.size() * sizeof(uint32_t));
  return write_all(queue, message);
}

Expected<ResultMessage> WorkerGroup::read_result() const {
  ResultMessage message;
  DLP_TRY(const ReadOutcome outcome, read_whole(results(), writable_bytes_of(message)));
  if (outcome == ReadOutcome::kWhole) return message;
  return failure(ErrorCode::kVanished, "all workers are gone");
}

size_t WorkerGroup::waiting_results() const {
  int bytes = 0;
  if (ioctl(results(), FIONREAD, &bytes) != 0) return 0;
  return static_cast<size_t>(bytes) / sizeof(ResultMessage);
}

Expected<std::vector<UniqueFd>> WorkerGroup::fetch_fds(int worker, uint64_t key) const {
  const int socket = members_.at(static_cast<size_t>(worker)).sharer.get();
  uint64_t answer = 0;
  DLP_CHECK(send_with_fds(socket, bytes_of(key), {}));
  DLP_CHECK(wait_readable(socket, kSharerLimit, [] { return stop_signal() != 0; }));
  DLP_TRY(ReceivedMessage received, receive_with_fds(socket, writable_bytes_of(answer)));
  if (received.fds.size() == kSegmentsPerBatch) return std::move(received.fds);
  return failure(ErrorCode::kVanished, "worker " + std::to_string(worker) +
                                           " is gone, and with it the descriptors of a batch");
}

void WorkerGroup::add_poll_entries(std::vector<pollfd>& entries) const {
  launcher_->add_poll_entries(entries);
}

std::string WorkerGroup::describe(const WorkerExit& ended) const {
  const auto member = std::ranges::find(members_, ended.pid, &Member::pid);
  std::string text = "worker " + std::to_string(member - members_.begin()) + " (pid " +
                     std::to_string(ended.pid) + ") ";
  if (WIFSIGNALED(ended.wait_status)) {
    const int signal = WTERMSIG(ended.wait_status);
    text += "was killed by " + signal_text(signal);
    if (signal == SIGBUS) text += "; it is possible that shared memory ran out";
    return text;
  }
  return text + "exited unexpectedly with status " + std::to_string(WEXITSTATUS(ended.wait_status));
}

Expected<std::optional<WorkerExit>> WorkerGroup::collect_exits() const {
  std::optional<WorkerExit> first;
  for (;;) {
    DLP_TRY(const auto ended, launcher_->next_exit());
    if (!ended) return first;
    for (Member& member : members_)
      member.ended = member.ended || member.pid == ended->pid;
    if (!first) first = ended;
  }
}

Status WorkerGroup::check() const {
  DLP_TRY(const auto ended, collect_exits());
  if (ended) return failure(ErrorCode::kVanished, describe(*ended));
  return {};
}

Error WorkerGroup::explain(const Error& error) const {
  std::vector<pollfd> entries;
  add_poll_entries(entries);
  poll(entries.data(), entries.size(), 1000);
  const Status checked = check();
  return checked ? error : checked.error();
}

bool WorkerGroup::all_ended() const {
  return std::ranges::all_of(members_, &Member::ended);
}

void WorkerGroup::stop(std::chrono::milliseconds grace) {
  // Each end of a queue tells the other side: no more tasks, nobody reads results any more.
  for (Member& member : members_) {
    member.tasks.reset();
    member.sharer.reset();
  }
  results_.read_end.reset();
  const auto until = std::chrono::steady_clock::now() + grace;
  bool killed = false;
  while (!all_ended()) {
    // An error means that the fork server is gone, and its workers with it.
    if (!collect_exits()) return;
    if (all_ended()) return;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 && !std::exchange(killed, true)) {
      for (const Member& member : members_) {
        if (!member.ended) kill(member.pid, SIGKILL);
      }
    }
    std::vector<pollfd> entries;
    add_poll_entries(entries);
    poll(entries.data(), entries.size(), killed ? -1 : static_cast<int>(left.count()));
  }
}

void WorkerGroup::stop_worker(int worker) const {
  const Member& member = members_.at(static_cast<size_t>(worker));
  if (!member.ended) kill(member.pid, SIGSTOP);
}

std::optional<pid_t> WorkerGroup::worker_pid(int worker) const {
  const Member& member = members_.at(static_cast<size_t>(worker));
  return member.ended ? std::nullopt : std::optional(member.pid);
}

Status WorkerGroup::kill_worker(int worker) {
  const Member& member = members_.at(static_cast<size_t>(worker));
  kill(member.pid, SIGKILL);
  while (!member.ended) {
    std::vector<pollfd> entries;
    add_poll_entries(entries);
    poll(entries.data(), entries.size(), -1);
    DLP_TRY([[maybe_unused]] const auto ended, collect_exits());
  }
  return {};
}

}  // namespace dlprobe::loader
