#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/process.h"
#include "lib/model/wait_graph.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// One frame of a stack.
struct Frame {
  FrameKind kind{};
  std::string function;
  std::optional<std::string> name;
  std::string file;
  std::optional<uint64_t> offset;
  std::optional<uint64_t> line;
};
constexpr void list_fields(auto&& field, Of<Frame> /*of*/) {
  field("kind", &Frame::kind);
  field("function", &Frame::function, Holds::kFunction,
        "as its file has it (C++ mangled); of Python the qualified name; empty: not known");
  field("name", &Frame::name, Holds::kFunction, "for people, where it is another");
  field("file", &Frame::file, Holds::kPath, "the ELF file, or the Python source");
  field("offset", &Frame::offset, "of a native frame: the address in its ELF file");
  field("line", &Frame::line);
}

/// The word of memory that a thread waits on.
struct Futex {
  std::string kind;
  uint64_t address = 0;
  bool shared = false;
  bool timed = false;
  uint64_t expected = 0;
  uint64_t value = 0;
  std::optional<int64_t> owner_tid;
  std::optional<uint64_t> team_size;
  std::optional<std::string> python_type;
  std::optional<std::string> file;
  std::optional<uint64_t> inode;
  std::optional<uint64_t> offset;
};
constexpr void list_fields(auto&& field, Of<Futex> /*of*/) {
  field("kind", &Futex::kind, Holds::kWord, "mutex, semaphore, GIL ...; unknown");
  field("address", &Futex::address);
  field("shared", &Futex::shared);
  field("timed", &Futex::timed);
  field("expected", &Futex::expected);
  field("value", &Futex::value);
  field("owner_tid", &Futex::owner_tid, "as the word has it: in the owner's pid namespace");
  field("team_size", &Futex::team_size);
  field("python_type", &Futex::python_type, Holds::kWord);
  field("file", &Futex::file, Holds::kPath);
  field("inode", &Futex::inode);
  field("offset", &Futex::offset);
}

/// A descriptor that a thread waits on.
struct WaitedFile {
  int64_t fd = 0;
  std::string kind;
  uint64_t inode = 0;
  std::optional<uint64_t> peer;
  std::optional<std::string> path;
};
constexpr void list_fields(auto&& field, Of<WaitedFile> /*of*/) {
  field("fd", &WaitedFile::fd, "-1: none yet");
  field("kind", &WaitedFile::kind, Holds::kWord,
        "pipe, fifo, socket, listening socket, connecting socket, file, eventfd, other");
  field("inode", &WaitedFile::inode);
  field("peer", &WaitedFile::peer, "of a socket: the inode of its other end");
  field("path", &WaitedFile::path, Holds::kPath,
        "of a file that is being opened; of a TCP socket address and port of the other side");
}

/// A thread at one look at its stack.
struct Thread {
  int64_t tid = 0;
  std::string comm;
  std::string state;
  double cpu_s = 0;
  double queued_s = 0;
  uint64_t timeslices = 0;
  std::optional<double> blocked_for_s;
  std::string waits_for;
  std::optional<uint64_t> syscall;
  std::optional<Futex> futex;
  std::optional<std::vector<WaitedFile>> files;
  bool stopped = false;
  bool consistent = false;
  std::vector<Frame> stack;
  std::optional<std::string> stack_note;
};
constexpr void list_fields(auto&& field, Of<Thread> /*of*/) {
  field("tid", &Thread::tid);
  field("comm", &Thread::comm, Holds::kName);
  field("state", &Thread::state, Holds::kWord, "R S D T t Z of /proc/PID/stat");
  field("cpu_s", &Thread::cpu_s);
  field("queued_s", &Thread::queued_s, "that it was ready to run and had no CPU");
  field("timeslices", &Thread::timeslices);
  field("blocked_for_s", &Thread::blocked_for_s,
        "for at least so long it has not run, also before dlprobe came; absent where the kernel "
        "does not say, or it runs");
  field("waits_for", &Thread::waits_for, Holds::kSentence, "in words; empty: it runs");
  field("syscall", &Thread::syscall, "number of the system call that it is in");
  field("futex", &Thread::futex);
  field("files", &Thread::files, "that it waits on in that system call");
  field("stopped", &Thread::stopped, "it was stopped for this look");
  field("consistent", &Thread::consistent, "it did not move while it was looked at");
  field("stack", &Thread::stack, "innermost first");
  field("stack_note", &Thread::stack_note, "what is missing of the stack, and why");
}

/// A lock or semaphore of multiprocessing's, as one process has it.
struct SemLock {
  uint64_t inode = 0;
  std::string file;
  int64_t value = 0;
  int64_t max_value = 0;
  bool recursive = false;
  int64_t count = 0;
  std::optional<int64_t> last_tid;
};
constexpr void list_fields(auto&& field, Of<SemLock> /*of*/) {
  field("inode", &SemLock::inode, "of its file in /dev/shm: the same lock in every process");
  field("file", &SemLock::file, Holds::kPath);
  field("value", &SemLock::value, "0: nobody may pass");
  field("max_value", &SemLock::max_value);
  field("recursive", &SemLock::recursive);
  field("count", &SemLock::count, "how often this process has acquired it and not yet released");
  field("last_tid", &SemLock::last_tid, "the thread that acquired it last, if it still exists");
}

/// What the last look at the stacks of a process has shown.
struct LastLook {
  std::optional<std::string> python;
  std::optional<std::string> python_note;
  std::optional<int64_t> gil_holder;
  double pause_s = 0;
  std::vector<Thread> threads;
  std::optional<std::vector<SemLock>> sem_locks;
};
constexpr void list_fields(auto&& field, Of<LastLook> /*of*/) {
  field("python", &LastLook::python, Holds::kWord, "its CPython's version");
  field("python_note", &LastLook::python_note, "why its Python stacks could not be read");
  field("gil_holder", &LastLook::gil_holder, "tid");
  field("pause_s", &LastLook::pause_s, "for how long dlprobe stopped it at the most");
  field("threads", &LastLook::threads, "at the last look at the stacks");
  field("sem_locks", &LastLook::sem_locks,
        "multiprocessing's locks and semaphores as this process has them");
}

/// What a thread did between the first and the last look at the stacks.
struct Doing {
  Activity activity{};
  std::optional<Moment> since;
  std::optional<std::string> waits_for;
  std::optional<Frame> in_code;
};
constexpr void list_fields(auto&& field, Of<Doing> /*of*/) {
  field("activity", &Doing::activity);
  field("since", &Doing::since, "since when it has not moved, as far as was watched");
  field("waits_for", &Doing::waits_for, Holds::kSentence, "in words");
  field("in_code", &Doing::in_code, "the innermost frame of the user's own Python code");
}

/// A thread that waits, or an object that is waited for.
struct WaitNode {
  std::string id;
  std::string label;
  NodeKind kind{};
  std::optional<int64_t> pid;
  std::optional<uint64_t> start_ticks;
  std::optional<int64_t> tid;
  std::optional<Role> role;
  std::optional<Doing> doing;
  std::optional<Frame> at;
};
constexpr void list_fields(auto&& field, Of<WaitNode> /*of*/) {
  field("id", &WaitNode::id, Holds::kWord, "unique in the graph");
  field("label", &WaitNode::label, Holds::kSentence);
  field("kind", &WaitNode::kind);
  field("pid", &WaitNode::pid);
  field("start_ticks", &WaitNode::start_ticks);
  field("tid", &WaitNode::tid);
  field("role", &WaitNode::role);
  field("", &WaitNode::doing);
  field("at", &WaitNode::at, "the innermost frame");
}

/// Who waits for what, or what is held by whom.
struct WaitEdge {
  std::string from;
  std::string to;
  std::string relation;
};
constexpr void list_fields(auto&& field, Of<WaitEdge> /*of*/) {
  field("from", &WaitEdge::from, Holds::kWord);
  field("to", &WaitEdge::to, Holds::kWord);
  field("relation", &WaitEdge::relation, Holds::kWord,
        "from `from` to `to`: waits for, held by ...");
}

/// Who waits for what at the last look.
struct WaitGraph {
  std::optional<uint64_t> run;
  std::vector<WaitNode> nodes;
  std::vector<WaitEdge> edges;
  std::vector<std::string> chain;
};
constexpr void list_fields(auto&& field, Of<WaitGraph> /*of*/) {
  field("run", &WaitGraph::run, "index of the run");
  field("nodes", &WaitGraph::nodes, "main threads and stuck threads first, then objects");
  field("edges", &WaitGraph::edges);
  field("chain", &WaitGraph::chain, Holds::kWord,
        "ids of nodes, from the trainer's main thread to the root cause");
}

}  // namespace dlprobe::report
