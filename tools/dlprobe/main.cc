#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "lib/subject/child_process.h"
#include "tools/dlprobe/app.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

int main(int argc, char** argv) {
  dlprobe::remember_inherited_state();
  try {
    return dlprobe::run_app(std::vector<std::string>(argv, argv + argc));
  } catch (const std::system_error& error) {
    // No thread, no descriptor, no memory: a limit of this machine.
    dlprobe::complain(std::string("the system refuses what dlprobe needs: ") + error.what() +
                      "; what would help: higher limits (ulimit -u, ulimit -n)");
    return dlprobe::kExitIncomplete;
  } catch (const std::exception& error) {
    dlprobe::complain(std::string("this is a bug in dlprobe, please report it: ") + error.what());
    return dlprobe::kExitBug;
  }
}
