#include "lib/subject/reference_loader.h"

#include <unistd.h>

#include <array>

namespace dlprobe {
namespace {

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
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
  return failure(ErrorCode::kNotFound,
                 "the reference loader is not installed: install the package "
                 "dlprobe-reference-loader, or build with -DDLPROBE_REFERENCE_LOADER=ON (needs "
                 "libtorch-dev and libopencv-dev); --pid and -- CMD work without it");
}

std::vector<std::string> reference_loader_argv(const std::string& executable,
                                               const LoaderPlan& plan, int progress_fd) {
  std::vector<std::string> argv = {executable,
                                   "--workers",
                                   std::to_string(plan.workers),
                                   "--batch-size",
                                   std::to_string(plan.batch_size),
                                   "--sample-shape",
                                   shape_text(plan.sample_shape),
                                   "--dtype",
                                   plan.dtype,
                                   "--prefetch-factor",
                                   std::to_string(plan.prefetch_factor),
                                   "--start-method",
                                   std::string(to_string(plan.start_method)),
                                   "--sharing-strategy",
                                   std::string(to_string(plan.sharing_strategy)),
                                   "--epochs",
                                   std::to_string(plan.epochs),
                                   "--device",
                                   plan.device,
                                   "--progress-fd",
                                   std::to_string(progress_fd)};
  const auto add = [&argv](const char* option, const std::string& value) {
    argv.emplace_back(option);
    argv.push_back(value);
  };
  if (plan.batches > 0) add("--batches", std::to_string(plan.batches));
  if (!plan.data_dir.empty()) add("--data", plan.data_dir);
  if (plan.data_sample > 0) add("--data-sample", std::to_string(plan.data_sample));
  if (!plan.fault.empty()) add("--fault", plan.fault);
  if (plan.pin_memory) argv.emplace_back("--pin-memory");
  if (plan.persistent_workers) argv.emplace_back("--persistent-workers");
  return argv;
}

}  // namespace dlprobe
