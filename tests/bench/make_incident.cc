// Writes the recording of a made-up incident: make_incident FILE [WORKERS [MINUTES]].
//
// A trainer with forked workers is watched for ten minutes at 10 Hz. Memory grows and falls, shared
// memory rises in saw teeth, each worker computes, and at the end one is killed by SIGKILL that a
// process outside sent. The stacks of all threads are there. What a real one of the size of a big
// node weighs, for the figures of rendering and for the test of its page.

#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "lib/record/codec.h"

namespace dlprobe {
namespace {

constexpr int32_t kTrainer = 1000;
constexpr uint64_t kDevice = 7;
constexpr BootNs kTick = kSecond / 10;
constexpr BootNs kStart = 1000 * kSecond;

ProcessKey key_of(int index) {
  return {.pid = kTrainer + index, .start_ticks = 90'000ULL + static_cast<uint64_t>(index)};
}

ProcessInfo process(int index) {
  const bool is_worker = index > 0;
  ProcessInfo info{.key = key_of(index), .ppid = is_worker ? kTrainer : 1, .seen_at = kStart};
  info.comm = is_worker ? "pt_data_worker" : "python";
  info.cmdline = {"python", "train.py", "--epochs", "90", "--data", "/data/imagenet"};
  info.exe = std::string("/usr/bin/python3.11");
  info.role = is_worker ? Role::kWorker : Role::kTrainer;
  info.role_basis = is_worker ? "its parent is the trainer, and it was forked" : "it was named";
  if (is_worker) info.start_method = StartMethod::kFork;
  info.namespace_pids = {info.key.pid};
  info.open_files_limit = Limit{.soft = 65536, .hard = 65536};
  return info;
}

// Saw teeth with a spike now and then, none of which a drawing may lose.
uint64_t wave(int64_t tick, int index, uint64_t base, uint64_t height) {
  const auto phase = static_cast<uint64_t>((tick + index * 7) % 40);
  const uint64_t spike = (tick + index) % 997 == 0 ? height : 0;
  return base + height * phase / 40 + spike;
}

ProcessSample sample_of(int index, int64_t tick) {
  const bool is_worker = index > 0;
  ProcessSample sample{.key = key_of(index), .ppid = is_worker ? kTrainer : 1};
  sample.state = tick % 3 == 0 ? 'R' : 'S';
  sample.utime_ticks = static_cast<uint64_t>(tick) * (is_worker ? 8 : 3);
  sample.threads = is_worker ? 3 : 40;
  sample.rss_bytes = wave(tick, index, (is_worker ? 700 : 5000) * kMiB, 64 * kMiB);
  sample.rss_shared_bytes = 300 * kMiB;
  sample.fd_count = wave(tick, index, 40, 30);
  if (tick % 10 == 0) {
    sample.pss_bytes = wave(tick, index, 400 * kMiB, 50 * kMiB);
    sample.swap_bytes = uint64_t{0};
  }
  sample.io_calls = static_cast<uint64_t>(tick) * 12;
  return sample;
}

StackFrame native(std::string function, std::string file) {
  return {.function = std::move(function), .file = std::move(file), .offset = 4096};
}

StackFrame python(std::string function, std::string file, int32_t line) {
  return {.python = true, .function = std::move(function), .file = std::move(file), .line = line};
}

ThreadSnapshot thread(int32_t tid, int place) {
  ThreadSnapshot thread{.tid = tid, .start_ticks = 90'000, .comm = "python", .state = 'S'};
  thread.cpu_ns = 5'000'000'000;
  thread.wait = {.tid = tid, .syscall = 7};
  thread.stack.push_back(native("poll", "/lib/x86_64-linux-gnu/libc.so.6"));
  for (int depth = 0; depth < 20; ++depth) {
    thread.stack.push_back(native("PyEval_EvalFrame_" + std::to_string(depth),
                                  "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"));
    thread.stack.push_back(
        python("Images.step_" + std::to_string(depth), "train.py", 10 * depth + place));
  }
  return thread;
}

TreeSnapshot snapshot(int workers, BootNs at) {
  TreeSnapshot tree{.at = at};
  for (int index = 0; index <= workers; ++index) {
    ProcessSnapshot each{.key = key_of(index), .at = at};
    each.python = "3.11.2";
    const int threads = index > 0 ? 3 : 40;
    for (int i = 0; i < threads; ++i)
      each.threads.push_back(thread(each.key.pid + 10000 * i, index % 5 + 5 * std::min(i, 3)));
    tree.processes.push_back(std::move(each));
  }
  return tree;
}

// Record by record, as a watch writes it.
void write_incident(std::ostream& file, int workers, int minutes) {
  const auto add = [&](Record record) { file << encode_record(record); };
  const RecordingHeader header = {
      .recording_id = std::string(32, 'a'),
      .realtime_ns = 1'795'000'000LL * kSecond,
      .boottime_ns = kStart,
      .host = {.name = "node1", .kernel = "6.1.0", .os = "Debian", .cpus = 64},
      .invocation = {.version = "0",
                     .probe = "attach",
                     .argv = {"dlprobe", "attach", "1000"},
                     .interval_ns = kTick,
                     .working_folder = "/job"}};
  file << encode_header(header);
  add(RunBegin{
      .at = kStart, .subject = SubjectKind::kPid, .asked_pid = kTrainer, .root = key_of(0)});
  for (int index = 0; index <= workers; ++index)
    add(process(index));
  add(ShmMount{.device = kDevice, .mount_point = "/dev/shm", .fs_type = "tmpfs"});
  const int64_t ticks = int64_t{minutes} * 600;
  for (int64_t tick = 0; tick < ticks; ++tick) {
    const BootNs at = kStart + tick * kTick;
    Sample sample{.at = at};
    for (int index = 0; index <= workers; ++index)
      sample.processes.push_back(sample_of(index, tick));
    const ShmUse use{.at = at,
                     .device = kDevice,
                     .size_bytes = 64 * kGiB,
                     .used_bytes = wave(tick, 0, 2 * kGiB, 30 * kGiB)};
    sample.shm = {use};
    add(std::move(sample));
    if (tick % 30 == 0) {
      add(Event{.at = at, .kind = "note", .text = "epoch " + own(tick / 30), .process = key_of(0)});
    }
  }
  const BootNs end = kStart + ticks * kTick;
  add(snapshot(workers, end - 2 * kSecond));
  add(snapshot(workers, end - kSecond));
  SignalSent sent{.at = end - kSecond, .signal = SIGKILL, .target = key_of(1), .sender_pid = 77};
  sent.sender_comm = "pkill";
  add(sent);
  add(ProcessExit{.key = key_of(1),
                  .at = end - kSecond / 2,
                  .wait_status = int32_t{SIGKILL},
                  .source = "waitid"});
  add(RunEnd{.at = end, .reason = RunEndReason::kTimeUp});
}

}  // namespace
}  // namespace dlprobe

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: make_incident FILE [WORKERS [MINUTES]]\n";
    return 2;
  }
  const int workers = argc > 2 ? std::atoi(argv[2]) : 63;
  const int minutes = argc > 3 ? std::atoi(argv[3]) : 10;
  std::ofstream file(argv[1], std::ios::binary);
  dlprobe::write_incident(file, workers, minutes);
  return file.good() ? 0 : 1;
}
