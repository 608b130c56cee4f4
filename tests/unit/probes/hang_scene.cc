#include "tests/unit/probes/hang_scene.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "lib/base/units.h"
#include "probes/probe.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

constexpr int64_t kRead = 0;
constexpr int64_t kWrite = 1;
constexpr int64_t kPoll = 7;
constexpr int64_t kNanosleep = 35;
constexpr int64_t kRecvfrom = 45;
constexpr int64_t kFlock = 73;
constexpr int64_t kFutex = 202;

void is_at_work(ThreadSnapshot& thread) {
  thread.state = 'R';
  thread.futex.reset();
  thread.wait = {.tid = thread.tid, .running = true};
  thread.stack = {native("work", "/usr/lib/libwork.so")};
}

}  // namespace

StackFrame native(std::string function, std::string file) {
  return {.python = false, .function = std::move(function), .file = std::move(file)};
}

StackFrame python(std::string function, std::string file, int line) {
  return {.python = true, .function = std::move(function), .file = std::move(file), .line = line};
}

FutexWait futex(LockKind kind, uint64_t address) {
  return {.address = address, .kind = kind};
}

HangScene::HangScene(int workers) {
  for (int32_t pid = kTrainer; pid <= kTrainer + workers; ++pid) {
    ProcessInfo info;
    info.key = key_of(pid);
    info.signals_caught = 0;
    info.role = pid == kTrainer ? Role::kTrainer : Role::kWorker;
    if (pid != kTrainer) info.start_method = StartMethod::kFork;
    info.ppid = pid == kTrainer ? 50 : kTrainer;
    infos_.push_back(std::move(info));
    ProcessSnapshot process{.key = key_of(pid)};
    process.threads.push_back({.tid = pid, .state = 'S', .timeslices = 10, .wait = {.tid = pid}});
    tree_.processes.push_back(std::move(process));
  }
  wait_in_read(main(kTrainer), kResults);
  has_end(kTrainer, kResults, true, false);
  for (int32_t pid = kTrainer + 1; pid <= kTrainer + workers; ++pid) {
    const uint64_t tasks = kResults + static_cast<uint64_t>(pid);
    wait_in_read(main(pid), tasks);
    has_end(pid, tasks, true, false);
    has_end(kTrainer, tasks, false, true);
    has_end(pid, kResults, false, true);
  }
}

ProcessSnapshot& HangScene::process(int32_t pid) {
  return *std::ranges::find(tree_.processes, key_of(pid), &ProcessSnapshot::key);
}

ProcessInfo& HangScene::info(int32_t pid) {
  return *std::ranges::find(infos_, key_of(pid), &ProcessInfo::key);
}

ThreadSnapshot& HangScene::thread(int32_t pid, int32_t tid) {
  return *std::ranges::find(process(pid).threads, tid, &ThreadSnapshot::tid);
}

ThreadSnapshot& HangScene::add_thread(int32_t pid, int32_t tid) {
  auto& threads = process(pid).threads;
  threads.push_back({.tid = tid, .state = 'S', .timeslices = 10, .wait = {.tid = tid}});
  wait_in_futex(threads.back(), futex(LockKind::kCondition, 0x5000 + static_cast<uint64_t>(tid)));
  return threads.back();
}

void HangScene::wait_in_futex(ThreadSnapshot& thread, FutexWait futex) {
  thread.wait = {.tid = thread.tid, .syscall = kFutex, .args = {futex.address, 0x80, 2, 0, 0, 0}};
  thread.futex = std::move(futex);
}

void HangScene::wait_in_read(ThreadSnapshot& thread, uint64_t pipe) {
  thread.futex.reset();
  thread.wait = {.tid = thread.tid,
                 .syscall = kRead,
                 .args = {5, 0, 0, 0, 0, 0},
                 .files = {{.fd = 5, .kind = FileKind::kPipe, .inode = pipe}}};
}

void HangScene::wait_in_recv(ThreadSnapshot& thread, uint64_t socket, uint64_t peer) {
  wait_in_read(thread, socket);
  thread.wait.syscall = kRecvfrom;
  thread.wait.files.front().kind = FileKind::kSocket;
  thread.wait.files.front().peer = peer;
}

void HangScene::wait_in_flock(ThreadSnapshot& thread, uint64_t file) {
  wait_in_read(thread, file);
  thread.wait.syscall = kFlock;
  thread.wait.files.front().kind = FileKind::kFile;
}

void HangScene::wait_in_write(ThreadSnapshot& thread, uint64_t pipe) {
  wait_in_read(thread, pipe);
  thread.wait.syscall = kWrite;
}

void HangScene::run(ThreadSnapshot& thread) {
  thread.futex.reset();
  thread.state = 'R';
  thread.wait = {.tid = thread.tid, .running = true};
  running_.emplace_back(process_of(thread).pid, thread.tid);
}

void HangScene::recurses(ThreadSnapshot& thread) {
  run(thread);
  recursing_.emplace_back(process_of(thread).pid, thread.tid);
}

void HangScene::wakes(ThreadSnapshot& thread) {
  waking_.emplace_back(process_of(thread).pid, thread.tid);
}

void HangScene::computes_at_times(ThreadSnapshot& thread) {
  wakes(thread);
  computing_.emplace_back(process_of(thread).pid, thread.tid);
}

ProcessKey HangScene::process_of(const ThreadSnapshot& thread) const {
  for (const ProcessSnapshot& process : tree_.processes)
    for (const ThreadSnapshot& each : process.threads)
      if (&each == &thread) return process.key;
  return {};
}

void HangScene::polls(ThreadSnapshot& thread, uint64_t pipe) {
  wait_in_read(thread, pipe);
  thread.wait.syscall = kPoll;
  thread.wait.args = {0x9000, 1, 5000, 0, 0, 0};
  waking_.emplace_back(process_of(thread).pid, thread.tid);
}

void HangScene::works_until(const ThreadSnapshot& thread, int look) {
  working_.push_back({.process = process_of(thread), .tid = thread.tid, .until = look});
}

void HangScene::is_awake_at(const ThreadSnapshot& thread, int look) {
  awake_.push_back({.process = process_of(thread), .tid = thread.tid, .until = look});
}

void HangScene::has_only_python_at(const ThreadSnapshot& thread, int look) {
  unread_.push_back({.process = process_of(thread), .tid = thread.tid, .until = look});
}

void HangScene::sleep(ThreadSnapshot& thread) {
  thread.futex.reset();
  thread.wait = {.tid = thread.tid, .syscall = kNanosleep};
}

void HangScene::has_end(int32_t pid, uint64_t pipe, bool reads, bool writes) {
  tree_.channel_ends.push_back({.inode = pipe,
                                .kind = EndKind::kPipe,
                                .pid = pid,
                                .comm = "python3",
                                .fd = 5,
                                .reads = reads,
                                .writes = writes});
}

void HangScene::has_no_end(int32_t pid, uint64_t pipe) {
  std::erase_if(tree_.channel_ends,
                [&](const ChannelEnd& end) { return end.pid == pid && end.inode == pipe; });
}

void HangScene::has_socket(int32_t pid, uint64_t socket) {
  has_end(pid, socket, true, true);
  tree_.channel_ends.back().kind = EndKind::kSocket;
}

void HangScene::has_flock(int32_t pid, uint64_t file, bool is_taker) {
  has_end(pid, file, is_taker, true);
  tree_.channel_ends.back().kind = EndKind::kFileLock;
}

void HangScene::shares_semaphore(int32_t pid, uint64_t inode, bool orphaned_sibling) {
  tree_.channel_ends.push_back({.inode = inode,
                                .kind = EndKind::kSemaphore,
                                .pid = pid,
                                .comm = "python3",
                                .orphaned_sibling = orphaned_sibling});
}

void HangScene::stack(ThreadSnapshot& thread, std::vector<StackFrame> frames) {
  thread.stack = std::move(frames);
}

void HangScene::age_groups(ProcessSnapshot& process, int look) const {
  const bool meets = std::ranges::count(meeting_, process.key.pid) > 0;
  for (FlightGroup& group : process.flight->groups) {
    if (meets) {
      group.enqueued += look;
      group.completed += look;
    }
    for (const Met& met : met_)
      if (met.pid == process.key.pid && look < met.until)
        group.enqueued = group.completed = met.collectives;
  }
}

void HangScene::age(TreeSnapshot& tree, int look) const {
  const auto seconds = static_cast<uint64_t>(look);
  for (ChannelEnd& end : tree.channel_ends)
    if (end.pid == let_go_) end.cpu_ticks += seconds;
  for (ProcessSnapshot& process : tree.processes) {
    if (process.flight) age_groups(process, look);
    for (ThreadSnapshot& thread : process.threads) {
      const std::pair who(process.key.pid, thread.tid);
      if (std::ranges::find(running_, who) != running_.end()) {
        thread.cpu_ns += seconds * static_cast<uint64_t>(kSecond);
        thread.timeslices += seconds * 100;
      }
      if (std::ranges::find(recursing_, who) != recursing_.end()) {
        const StackFrame innermost = thread.stack.front();
        thread.stack.insert(thread.stack.begin(), seconds, innermost);
      }
      if (std::ranges::find(waking_, who) != waking_.end()) {
        thread.cpu_ns += seconds * 50'000;
        thread.timeslices += seconds * 5;
        // CPython specializes its code: it stands at another place of the interpreter.
        for (StackFrame& frame : thread.stack)
          if (!frame.python && frame.file.contains("python")) frame.offset += seconds;
      }
      if (std::ranges::count(computing_, who) > 0) thread.cpu_ns += seconds * 7'000'000;
      for (const Earlier& earlier : working_) {
        if (earlier.process != process.key || earlier.tid != thread.tid) continue;
        const auto worked = static_cast<uint64_t>(std::min(look, earlier.until));
        thread.cpu_ns += worked * static_cast<uint64_t>(kSecond) / 2;
        thread.timeslices += worked * 100;
        if (look < earlier.until) is_at_work(thread);
      }
      for (const Earlier& unread : unread_)
        if (unread.process == process.key && unread.tid == thread.tid && unread.until == look)
          std::erase_if(thread.stack, [](const StackFrame& frame) { return !frame.python; });
      for (const Earlier& awake : awake_)
        if (awake.process == process.key && awake.tid == thread.tid && awake.until == look)
          is_at_work(thread);
    }
  }
}

Sample HangScene::calls_at(int look) const {
  Sample sample{.at = Scene::at(look)};
  for (const auto& [pid, until] : reading_) {
    ProcessSample process{.key = key_of(pid)};
    process.io_calls = static_cast<uint64_t>(std::min(look, until));
    sample.processes.push_back(std::move(process));
  }
  return sample;
}

void HangScene::had_child(int32_t parent, int32_t pid, int signal) {
  infos_.push_back({.key = key_of(pid), .ppid = parent});
  exits_.push_back({.key = key_of(pid), .at = Scene::at(0), .wait_status = signal});
}

Verdict HangScene::examine(int looks) const {
  Recording recording;
  recording.header.host.machine = "x86_64";
  recording.header.host.cpus = cpus;
  Run& run = recording.runs.emplace_back();
  run.begin.subject = subject_;
  run.processes = infos_;
  run.exits = exits_;
  for (int i = 0; i < looks; ++i) {
    TreeSnapshot tree = tree_;
    tree.at = Scene::at(i);
    age(tree, i);
    run.snapshots.push_back(std::move(tree));
    if (!reading_.empty()) run.samples.push_back(calls_at(i));
  }
  run.begin.looks_when_quiet = when_quiet_;
  if (moves_again_) {
    run.events.push_back({.at = Scene::at(looks), .kind = std::string(kMovesAgain)});
  }
  for (const auto& [pid, ended] : raised_) {
    StartEvent& raised = run.start_events.emplace_back();
    raised.at = Scene::at(0);
    raised.process = key_of(pid);
    raised.kind = StartEventKind::kFailed;
    raised.ended = ended;
  }
  for (const auto& [pid, seconds] : told_) {
    StartEvent& told = run.start_events.emplace_back();
    told.kind = StartEventKind::kWaitsAtMost;
    told.process = key_of(pid);
    told.seconds = seconds;
  }
  if (leaves_ != 0) {
    StartEvent& told = run.start_events.emplace_back();
    told.process = key_of(leaves_);
    told.kind = StartEventKind::kExits;
    told.message = "os._exit";
    told.count = 0;
    told.file = "/srv/train.py";
    told.line = 7;
  }
  if (gives_up_ != 0) {
    StartEvent& raised = run.start_events.emplace_back();
    raised.at = Scene::at(looks);
    raised.process = key_of(gives_up_);
    raised.kind = StartEventKind::kFailed;
    raised.ended = Ended::kProcess;
    raised.raised_in = gives_up_in_;
    raised.type = "RuntimeError";
    raised.message = "RuntimeError: no more patience";
  }
  if (aborts_ != 0) {
    run.exits.push_back({.key = key_of(aborts_), .at = Scene::at(looks), .wait_status = SIGABRT});
  }
  if (code_) {
    run.exits.push_back(
        {.key = key_of(kTrainer), .at = Scene::at(looks), .wait_status = *code_ << 8});
  }
  if (ended_) run.end = RunEnd{.at = Scene::at(looks), .reason = RunEndReason::kSubjectEnded};
  return probes::deadlock::kProbe.examine(recording);
}

}  // namespace dlprobe
