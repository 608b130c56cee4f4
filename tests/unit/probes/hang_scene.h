#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  static constexpr std::string_view kCollective =
      "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:1437 all_reduce";

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
  /// In recv, on a socket whose other end is `peer`; 0: not known.
  void wait_in_recv(ThreadSnapshot& thread, uint64_t socket, uint64_t peer);
  void wait_in_flock(ThreadSnapshot& thread, uint64_t file);
  void wait_in_write(ThreadSnapshot& thread, uint64_t pipe);
  void run(ThreadSnapshot& thread);    ///< it is running at every look
  void sleep(ThreadSnapshot& thread);  ///< in nanosleep
  /// In poll on that pipe with a timeout that is over before the next look, again and again.
  void polls(ThreadSnapshot& thread, uint64_t pipe);
  /// At the looks before that one it ran somewhere else.
  void works_until(const ThreadSnapshot& thread, int look);
  /// That look met it awake, between two waits.
  void is_awake_at(const ThreadSnapshot& thread, int look);
  /// Of what it was in at that look only the Python frames were read.
  void has_only_python_at(const ThreadSnapshot& thread, int look);
  /// It runs, and its innermost function has called itself once more at each look.
  void recurses(ThreadSnapshot& thread);
  void wakes(ThreadSnapshot& thread);  ///< for a moment between two looks, to wait again
  /// The same, and it has computed for 7 ms of each second.
  void computes_at_times(ThreadSnapshot& thread);
  /// Its process groups go on from look to look.
  void meets_meanwhile(int32_t pid) { meeting_.push_back(pid); }
  /// At the looks before that one they have completed as many collectives, and wait for none.
  void has_met(int32_t pid, int64_t collectives, int until) {
    met_.push_back({.pid = pid, .collectives = collectives, .until = until});
  }
  /// It said so when it made its process groups.
  void waits_at_most(int32_t pid, double seconds) { told_.emplace_back(pid, seconds); }
  /// The process reads or writes between two looks, up to that look.
  void reads_until(int32_t pid, int look) { reading_.emplace_back(pid, look); }
  void has_end(int32_t pid, uint64_t pipe, bool reads, bool writes);
  void has_no_end(int32_t pid, uint64_t pipe);
  void has_socket(int32_t pid, uint64_t socket);
  void has_flock(int32_t pid, uint64_t file, bool is_taker = false);
  /// The newest end, of a process outside of the tree, is that of a stopped one.
  void is_stopped_outside() { tree_.channel_ends.back().state = 'T'; }
  /// The same, but it runs between two looks.
  void is_let_go_outside() { is_stopped_outside(), let_go_ = tree_.channel_ends.back().pid; }
  void hides_processes() { tree_.all_ends_seen = false; }
  /// It moved again after the last look.
  void moves_again() { moves_again_ = true; }
  /// It called abort() after the last look.
  void aborts(int32_t pid) { aborts_ = pid; }
  /// A rank that waited gave up after the last look: its collective operation failed, or what is
  /// named as StartEvent::raised_in.
  void gives_up(int32_t pid, std::string_view in = kCollective) {
    gives_up_ = pid, gives_up_in_ = in;
  }
  /// An exception ended a thread of the process, or its program, before the first look.
  void raised(int32_t pid, Ended ended) { raised_.emplace_back(pid, ended); }
  /// It said that it calls os._exit(0).
  void leaves_at_once(int32_t pid) { leaves_ = pid; }
  /// As `dlprobe run` watches it: no look is taken while it moves.
  void is_looked_at_when_quiet() { when_quiet_ = true; }
  void ends_by_itself() { ended_ = true; }
  /// The same, of a command whose trainer ends with that code.
  void ends_with(int code) { code_ = code, ended_ = true; }
  /// One more child of `parent`, that was killed by that signal before anybody looked.
  void had_child(int32_t parent, int32_t pid, int signal);
  void is_reference_loader() { subject_ = SubjectKind::kReferenceLoader; }
  void shares_semaphore(int32_t pid, uint64_t inode, bool orphaned_sibling = false);
  void stack(ThreadSnapshot& thread, std::vector<StackFrame> frames);

  /// What the probe says after looking `looks` times, a second apart.
  Verdict examine(int looks = 4) const;

  int cpus = 2;  ///< of the machine

 private:
  /// At the looks before `until` a thread did something else.
  struct Earlier {
    ProcessKey process;
    int32_t tid = 0;
    int until = 0;
  };

  /// How far it was in its process groups at the looks before `until`.
  struct Met {
    int32_t pid = 0;
    int64_t collectives = 0;
    int until = 0;
  };

  ProcessKey process_of(const ThreadSnapshot& thread) const;
  void age(TreeSnapshot& tree, int look) const;
  void age_groups(ProcessSnapshot& process, int look) const;
  Sample calls_at(int look) const;

  std::vector<ProcessInfo> infos_;
  TreeSnapshot tree_;
  std::vector<std::pair<int32_t, int32_t>> running_;
  std::vector<std::pair<int32_t, int32_t>> recursing_;
  std::vector<std::pair<int32_t, int32_t>> waking_;
  std::vector<std::pair<int32_t, int32_t>> computing_;  ///< of those
  std::vector<int32_t> meeting_;
  std::vector<Met> met_;
  std::vector<std::pair<int32_t, double>> told_;
  std::vector<std::pair<int32_t, int>> reading_;
  std::vector<Earlier> working_;
  std::vector<Earlier> awake_;   ///< at the look `until`
  std::vector<Earlier> unread_;  ///< at the look `until`
  std::vector<ProcessExit> exits_;
  SubjectKind subject_ = SubjectKind::kPid;
  bool ended_ = false;
  std::optional<int> code_;
  bool moves_again_ = false;
  int32_t gives_up_ = 0;
  int32_t aborts_ = 0;
  int32_t let_go_ = 0;
  int32_t leaves_ = 0;
  std::string_view gives_up_in_;
  std::vector<std::pair<int32_t, Ended>> raised_;
  bool when_quiet_ = false;
};

StackFrame native(std::string function, std::string file);
StackFrame python(std::string function, std::string file, int line);
FutexWait futex(LockKind kind, uint64_t address);

}  // namespace dlprobe
