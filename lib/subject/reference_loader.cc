#include "lib/subject/reference_loader.h"

#include <unistd.h>

#include <array>

#include "lib/model/loader_option.h"

namespace dlprobe {
namespace {

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

}  // namespace

Expected<std::string> find_reference_loader(const std::string& override_path,
                                            const std::string& own_executable) {
  constexpr std::string_view kName = "dlprobe-reference-loader";
  if (!override_path.empty()) {
    if (::access(override_path.c_str(), X_OK) == 0) return override_path;
    return os_failure("run the reference loader " + override_path +
                      " that DLPROBE_REFERENCE_LOADER names");
  }
  const std::string here = folder_of(own_executable);
  const std::array candidates = {
      here + "/", here + "/../libexec/dlprobe/",
      here +
          "/../reference_loader/",  // the build tree: tools/dlprobe beside tools/reference_loader
  };
  for (const std::string& folder : candidates) {
    std::string path = folder + std::string(kName);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return failure(
      ErrorCode::kNotFound,
      "the reference loader is not installed (wheel and tarball have none): gate --level quick "
      "checks without it, --pid PID and -- COMMAND need none. To have it, install the package "
      "dlprobe-reference-loader, or build with -DDLPROBE_REFERENCE_LOADER=ON (needs libtorch-dev "
      "and libopencv-dev)");
}

std::vector<std::string> reference_loader_argv(const std::string& executable,
                                               const LoaderPlan& plan) {
  std::vector<std::string> argv = loader_arguments(plan);
  argv.insert(argv.begin(), executable);
  argv.insert(argv.end(), {"--progress-fd", std::to_string(kProgressFd)});
  return argv;
}

}  // namespace dlprobe
