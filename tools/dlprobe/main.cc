#include <exception>
#include <string>
#include <vector>

#include "lib/subject/child_process.h"
#include "tools/dlprobe/app.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/exit_status.h"

int main(int argc, char** argv) {
  dlprobe::remember_inherited_state();
  try {
    return dlprobe::run_app(std::vector<std::string>(argv, argv + argc));
  } catch (const std::exception& error) {
    dlprobe::complain(std::string("this is a bug in dlprobe, please report it: ") + error.what());
    return dlprobe::kExitBug;
  }
}
