#pragma once

namespace dlprobe::loader {

/// In the main process: SIGINT, SIGTERM and SIGHUP are remembered, SIGPIPE is ignored.
void install_stop_handlers();

/// The signal that asked the main process to stop; 0 as long as there was none.
int stop_signal();

/// Becomes readable when a stop was asked for; -1 before install_stop_handlers().
int stop_fd();

/// Ends this process by `signal`, as if it had never been caught, so that its parent sees the
/// truth.
[[noreturn]] void die_by(int signal);

/// In a worker: SIGBUS, SIGSEGV and SIGFPE print one line and then kill the process as they would
/// have (torch/csrc/DataLoader.cpp does the same); SIGINT is left to the main process.
void install_worker_handlers();

/// Makes this process die with its parent, and checks that the parent `parent` is not dead already.
void die_with_parent(int parent);

/// While it lives, the calling thread's process outlives the death of its parent; it then follows
/// at the end of the scope. For steps that must not be cut in two, such as a file's creation and
/// the removal of its name. Nothing where the process does not die with its parent.
class ParentDeathPause {
 public:
  ParentDeathPause();
  ~ParentDeathPause();
  ParentDeathPause(const ParentDeathPause&) = delete;
  ParentDeathPause& operator=(const ParentDeathPause&) = delete;

 private:
  int signal_ = 0;
  int parent_;
};

/// Sets the name that ps and /proc/PID/comm show; at most 15 characters.
void set_process_name(const char* name);

}  // namespace dlprobe::loader
