#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// Puts a Recording of a tree that hangs together: the trainer is pid 100, its workers, forked,
/// are 101, 102 ... All threads wait for what they are told to wait for; nobody runs unless told.
class HangScene {
 public:
  static constexpr int32_t kTrainer = 100;
  static constexpr uint64_t kResults = 9000;  ///< inode of the pipe of results

  /// Workers wait for tasks in pipes of their own that the trainer writes; the trainer waits for
  /// results that the workers write.
  explicit HangScene(int workers = 2);

  ThreadSnapshot& main(int32_t pid) { return thread(pid, pid); }
  ThreadSnapshot& thread(int32_t pid, int32_t tid);
  ProcessSnapshot& process(int32_t pid);
  ProcessInfo& info(int32_t pid);
  /// One more thread of that process, asleep at a condition variable of its own.
  ThreadSnapshot& add_thread(int32_t pid, int32_t tid);

  /// What a thread waits for from now on.
  void wait_in_futex(ThreadSnapshot& thread, FutexWait futex);
  void wait_in_read(ThreadSnapshot& thread, uint64_t pipe);
  void wait_in_write(ThreadSnapshot& thread, uint64_t pipe);
  void run(ThreadSnapshot& thread);    ///< it is running at every look
  void sleep(ThreadSnapshot& thread);  ///< in nanosleep
  void has_end(int32_t pid, uint64_t pipe, bool reads, bool writes);
  void hides_processes() { tree_.all_ends_seen = false; }
  void ends_by_itself() { ended_ = true; }
  void shares_semaphore(int32_t pid, uint64_t inode);
  void stack(ThreadSnapshot& thread, std::vector<StackFrame> frames);

  /// What the probe says after looking `looks` times, a second apart.
  Verdict examine(int looks = 4) const;

  int cpus = 2;  ///< of the machine

 private:
  std::vector<ProcessInfo> infos_;
  TreeSnapshot tree_;
  std::vector<std::pair<int32_t, int32_t>> running_;
  bool ended_ = false;
};

StackFrame native(std::string function, std::string file);
StackFrame python(std::string function, std::string file, int line);
FutexWait futex(LockKind kind, uint64_t address);

}  // namespace dlprobe
