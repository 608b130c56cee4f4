#include "tools/dlprobe/options/loader_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/parse.h"
#include "lib/model/loader_option.h"
#include "tools/dlprobe/options/choices.h"

namespace dlprobe {
namespace {

constexpr const char* kLoaderGroup = "Loader";
template <class T, size_t N>
std::vector<std::string> value_names(const std::array<T, N>& values) {
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

// Adds the option of that name with the words that the reference loader has for it.
template <class T>
CLI::Option* add_option(CLI::App& command, std::string_view name, T& value) {
  const LoaderOption& option = loader_option(name);
  return command.add_option(std::string(name), value, std::string(option.what))
      ->group(kLoaderGroup);
}

void add_number(CLI::App& command, const LoaderOption& option, LoaderPlan& plan) {
  add_option(command, option.name, plan.*option.number)
      ->check(whole_number(option.least, option.most))
      ->capture_default_str();
}

void add_text(CLI::App& command, std::string_view name, LoaderOptions& options) {
  if (name == "--sample-shape") {
    add_option(command, name, options.sample_shape)->capture_default_str();
  } else if (name == "--dtype") {
    add_option(command, name, options.plan.dtype)
        ->check(one_of(dtype_names()))
        ->capture_default_str();
  } else if (name == "--start-method") {
    add_option(command, name, options.start_method)
        ->check(one_of(value_names(kValues<StartMethod>)))
        ->capture_default_str();
  } else if (name == "--sharing-strategy") {
    add_option(command, name, options.sharing_strategy)
        ->check(one_of(value_names(kValues<SharingStrategy>)))
        ->capture_default_str();
  } else if (name == "--device") {
    add_option(command, name, options.plan.device)
        ->check(offering({"auto", "cpu", "cuda"}))
        ->capture_default_str();
  } else if (name == "--data") {
    add_option(command, name, options.plan.data_dir)
        ->check([](const std::string& path) {
          return path.empty() ? "it names no folder (an empty variable?)" : "";
        })
        ->type_name("DIR");
  }
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

Expected<int> parse_count(std::string_view option, std::string_view text, int least, int most) {
  const auto number = parse_int<int>(text);
  if (number && *number >= least && *number <= most) return *number;
  return failure(ErrorCode::kInvalid, fmt::format("{}: '{}' is not a whole number from {} to {}",
                                                  option, text, least, most));
}

void add_loader_options(CLI::App& command, LoaderOptions& options) {
  for (const LoaderOption& option : loader_options()) {
    // A gate's own, which looks at a part of the data.
    if (option.name == "--data-sample") continue;
    if (option.number != nullptr) {
      add_number(command, option, options.plan);
    } else if (option.flag != nullptr) {
      command
          .add_flag(std::string(option.name), options.plan.*option.flag, std::string(option.what))
          ->group(kLoaderGroup);
    } else {
      add_text(command, option.name, options);
    }
  }
}

bool loader_options_given(const CLI::App& command) {
  return std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    return option->get_group() == kLoaderGroup && option->count() > 0;
  });
}

Expected<std::vector<LoaderPlan>> loader_plans(const LoaderOptions& options) {
  LoaderPlan plan = options.plan;
  DLP_CHECK(read_loader_option(loader_option("--sample-shape"), options.sample_shape, plan));
  DLP_CHECK(check_batch_size(plan));
  std::vector<LoaderPlan> plans;
  for (const StartMethod method : chosen(kValues<StartMethod>, options.start_method)) {
    for (const SharingStrategy strategy :
         chosen(kValues<SharingStrategy>, options.sharing_strategy)) {
      plan.start_method = method;
      plan.sharing_strategy = strategy;
      plans.push_back(plan);
    }
  }
  return plans;
}

}  // namespace dlprobe
