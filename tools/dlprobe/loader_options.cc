#include "tools/dlprobe/loader_options.h"

#include <algorithm>
#include <limits>

#include "lib/base/parse.h"
#include "tools/dlprobe/choices.h"

namespace dlprobe {
namespace {

constexpr const char* kGroup = "Loader";
constexpr int64_t kLargestExtent = 1 << 20;
constexpr uint64_t kLargestBatchBytes = uint64_t{1}
                                        << 40;  // 1 TiB: beyond it a typing error is likelier

template <class T, size_t N>
std::vector<std::string> names_of(const std::array<T, N>& values) {
  std::vector<std::string> names;
  names.reserve(N + 1);
  for (const T value : values)
    names.emplace_back(to_string(value));
  names.emplace_back("all");
  return names;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  names.reserve(kDtypes.size());
  for (const Dtype& dtype : kDtypes)
    names.emplace_back(dtype.name);
  return names;
}

Expected<std::vector<int64_t>> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  for (const std::string_view piece : split(text, 'x')) {
    const auto extent = parse_int<int64_t>(piece);
    if (!extent || *extent < 1 || *extent > kLargestExtent) {
      return failure(ErrorCode::kInvalid,
                     "--sample-shape '" + text +
                         "' is not a shape: give channels x height x width, for example 3x224x224");
    }
    shape.push_back(*extent);
  }
  if (shape.size() != 3) {
    return failure(ErrorCode::kInvalid, "--sample-shape '" + text + "' has " +
                                            std::to_string(shape.size()) +
                                            " numbers instead of 3 (channels x height x width)");
  }
  return shape;
}

// Every value of the enum that `name` means: one, or all.
template <class T, size_t N>
std::vector<T> chosen(const std::array<T, N>& values, const std::string& name) {
  std::vector<T> result;
  for (const T value : values) {
    if (name == "all" || to_string(value) == name) result.push_back(value);
  }
  return result;
}

}  // namespace

CLI::Validator whole_number(int least, int most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  return {[least, most, range](const std::string& text) {
            const auto value = parse_int<int>(text);
            if (value && *value >= least && *value <= most) return std::string();
            return "'" + text + "' is not a whole number from " + range;
          },
          "[" + range + "]"};
}

void add_loader_options(CLI::App& command, LoaderOptions& options) {
  LoaderPlan& plan = options.plan;
  const auto number = [&](const char* name, int& value, const char* what, int least, int most) {
    command.add_option(name, value, what)
        ->check(whole_number(least, most))
        ->capture_default_str()
        ->group(kGroup);
  };
  number("--workers", plan.workers, "worker processes (num_workers)", 0, 1024);
  number("--batch-size", plan.batch_size, "samples per batch", 1, 1 << 20);
  command
      .add_option("--sample-shape", options.sample_shape, "channels x height x width of a sample")
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--dtype", plan.dtype, "element type of a sample")
      ->check(one_of(dtype_names()))
      ->capture_default_str()
      ->group(kGroup);
  number("--prefetch-factor", plan.prefetch_factor, "batches in flight per worker", 1, 1024);
  command.add_option("--start-method", options.start_method, "how workers are started")
      ->check(one_of(names_of(kStartMethods)))
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--sharing-strategy", options.sharing_strategy, "how tensors are handed over")
      ->check(one_of(names_of(kSharingStrategies)))
      ->capture_default_str()
      ->group(kGroup);
  command.add_flag("--pin-memory", plan.pin_memory, "copy batches to pinned memory in a thread")
      ->group(kGroup);
  command.add_flag("--persistent-workers", plan.persistent_workers, "keep workers between epochs")
      ->group(kGroup);
  number("--epochs", plan.epochs, "epochs to run", 1, 1'000'000);
  number("--batches", plan.batches, "batches per epoch (0: enough to see the steady state)", 0,
         std::numeric_limits<int>::max());
  command.add_option("--device", plan.device, "auto, cpu, cuda or cuda:N")
      ->check(offering({"auto", "cpu", "cuda"}))
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--data", plan.data_dir, "folder of images (default: built-in images)")
      ->check([](const std::string& path) {
        return path.empty() ? "it names no folder (an empty variable?)" : "";
      })
      ->type_name("DIR")
      ->group(kGroup);
}

bool loader_options_given(const CLI::App& command) {
  return std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    return option->get_group() == kGroup && option->count() > 0;
  });
}

Expected<std::vector<LoaderPlan>> loader_plans(const LoaderOptions& options) {
  LoaderPlan plan = options.plan;
  DLP_TRY(plan.sample_shape, parse_shape(options.sample_shape));
  if (sample_bytes(plan) > kLargestBatchBytes / static_cast<uint64_t>(plan.batch_size)) {
    return failure(ErrorCode::kInvalid, "--batch-size " + std::to_string(plan.batch_size) +
                                            " of --sample-shape " + options.sample_shape +
                                            " is more than 1 TiB per batch: check both numbers");
  }
  std::vector<LoaderPlan> plans;
  for (const StartMethod method : chosen(kStartMethods, options.start_method)) {
    for (const SharingStrategy strategy : chosen(kSharingStrategies, options.sharing_strategy)) {
      plan.start_method = method;
      plan.sharing_strategy = strategy;
      plans.push_back(plan);
    }
  }
  return plans;
}

}  // namespace dlprobe
