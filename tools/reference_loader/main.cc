#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "lib/base/parse.h"
#include "tools/reference_loader/launcher.h"
#include "tools/reference_loader/options.h"
#include "tools/reference_loader/run.h"

namespace dlprobe::loader {
namespace {

int run_role(const std::vector<std::string>& args) {
  const int fd = parse_int<int>(args[2]).value_or(-1);
  if (args[1] == kWorkerRole) return run_spawned_worker(fd);
  if (args[1] == kForkServerRole) return run_fork_server(fd);
  complain(args[0] + " is for the loader's own use");
  return kExitUsage;
}

int run(const std::vector<std::string>& args) {
  if (args.size() == 3 && args[0] == kRoleOption) return run_role(args);
  const auto command_line = parse_command_line(args);
  if (!command_line) {
    complain(to_string(command_line.error()));
    return kExitUsage;
  }
  if (!command_line->text.empty()) {
    std::fputs(command_line->text.c_str(), stdout);
    return kExitOk;
  }
  return run_loader(command_line->options, args);
}

}  // namespace
}  // namespace dlprobe::loader

int main(int argc, char** argv) {
  try {
    return dlprobe::loader::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    dlprobe::loader::complain(error.what());
    return dlprobe::loader::kExitFailed;
  }
}
