#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// The most of what a user can type: whatever dlprobe forecasts, the reference loader takes.
inline constexpr int kMostWorkers = 1024;
inline constexpr int kMostPrefetched = 1024;
inline constexpr int kLargestBatch = 1 << 20;
inline constexpr int64_t kLargestExtent = 1 << 20;
inline constexpr int kMostEpochs = 1'000'000;
inline constexpr int kMostBatches = 1'000'000'000;
/// Of one batch: beyond 1 TiB a typing error is likelier.
inline constexpr uint64_t kLargestBatchBytes = uint64_t{1} << 40;

/// One option that makes up a plan, of dlprobe's command line and of the reference loader's: a
/// number, a flag or a text.
struct LoaderOption {
  std::string_view name;              ///< "--workers"
  std::string_view what;              ///< for --help
  std::string_view value_name = "N";  ///< "DIR"; of no use to a flag
  int LoaderPlan::* number = nullptr;
  int least = 0;  ///< of a number
  int most = 0;
  bool LoaderPlan::* flag = nullptr;
  Status (*read)(std::string_view text, LoaderPlan& plan) = nullptr;  ///< of a text
  std::string (*write)(const LoaderPlan& plan) = nullptr;
};

/// All of them, in the order in which --help has them.
std::span<const LoaderOption> loader_options();

/// The option of that name, which must exist.
const LoaderOption& loader_option(std::string_view name);

/// Puts what was typed after an option that is no flag into the plan; kInvalid says in one line
/// what to give instead.
Status read_loader_option(const LoaderOption& option, std::string_view text, LoaderPlan& plan);

/// The options that make up `plan`, as a command line has them; none for a text that is empty.
std::vector<std::string> loader_arguments(const LoaderPlan& plan);

/// kInvalid for a batch that no machine holds.
Status check_batch_size(const LoaderPlan& plan);

}  // namespace dlprobe
