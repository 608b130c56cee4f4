#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "lib/os/thread_start.h"
#include "lib/subject/child_process.h"
#include "tools/dlprobe/app.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace {

// The deepest calls take a tenth of it.
constexpr rlim_t kEnoughStack = 1U << 20;

bool has_small_stack() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kEnoughStack;
}

int run_guarded(const std::vector<std::string>& arguments) {
  try {
    return dlprobe::run_app(arguments);
  } catch (const std::system_error& error) {
    // No thread, no descriptor, no memory: a limit of this machine.
    dlprobe::complain(std::string("the system refuses what dlprobe needs: ") + error.what() +
                      "; what would help: higher limits (ulimit -u, ulimit -n)");
    return dlprobe::kExitIncomplete;
  } catch (const std::bad_alloc&) {
    dlprobe::complain(
        "the system refuses the memory that dlprobe needs; what would help: more of it, or a "
        "higher "
        "limit (ulimit -v)");
    return dlprobe::kExitIncomplete;
  } catch (const std::exception& error) {
    dlprobe::complain(std::string("this is a bug in dlprobe, please report it: ") + error.what());
    return dlprobe::kExitBug;
  }
}

// Threads bring stacks of their own: `ulimit -s` of the shell does not bind them, and a command
// that dlprobe starts has that limit as before.
int run_on_larger_stack(const std::vector<std::string>& arguments) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kEnoughStack);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
  // Signals go to the other thread, which reads them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = dlprobe::kExitBug;
  auto other = dlprobe::start_thread("use a larger stack", [&] {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    status = run_guarded(arguments);
  });
  if (!other) {
    dlprobe::complain(dlprobe::to_string(other.error()));
    return dlprobe::kExitIncomplete;
  }
  other->join();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  dlprobe::remember_inherited_state();
  const std::vector<std::string> arguments(argv, argv + argc);
  return has_small_stack() ? run_on_larger_stack(arguments) : run_guarded(arguments);
}
