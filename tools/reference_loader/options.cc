#include "tools/reference_loader/options.h"

#include <fmt/core.h>

#include <map>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>

#include "lib/base/parse.h"
#include "lib/model/loader_option.h"

namespace dlprobe::loader {
namespace {

constexpr int64_t kMaxImageExtent = 16384;
constexpr uint32_t kMaxImages = 1'000'000;
// Of the built-in pictures before compression: they are kept in memory as JPEGs, about a tenth of
// it.
constexpr uint64_t kMaxPixels = uint64_t{8} << 30;

/// Text as typed; CLI11 only collects it, so that every message about a value is our own.
struct Typed {
  std::map<std::string_view, std::string> plan;  ///< by the option's name
  std::string images = "256";
  std::string image_size = "256x256";
  std::string seed = "0";
  std::string progress_fd;
  std::string threads = "0";
  std::string step = "train";
};

std::unexpected<Error> bad_value(std::string_view option, std::string_view value,
                                 std::string_view expected) {
  return failure(ErrorCode::kInvalid, std::string(option) + " '" + std::string(value) + "': give " +
                                          std::string(expected));
}

template <class T>
Expected<T> number(std::string_view option, std::string_view value, T least, T most) {
  const auto parsed = parse_int<T>(value);
  if (parsed && *parsed >= least && *parsed <= most) return *parsed;
  return bad_value(option, value,
                   "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

std::optional<std::vector<int64_t>> extents(std::string_view text, size_t count, int64_t most) {
  std::vector<int64_t> result;
  for (const std::string_view part : split(text, 'x')) {
    const auto extent = parse_int<int64_t>(part);
    if (!extent || *extent < 1 || *extent > most) return std::nullopt;
    result.push_back(*extent);
  }
  if (result.size() != count) return std::nullopt;
  return result;
}

Status read_plan(const CLI::App& app, const Typed& typed, LoaderPlan& plan) {
  for (const auto& [name, text] : typed.plan) {
    if (app.count(std::string(name)) > 0)
      DLP_CHECK(read_loader_option(loader_option(name), text, plan));
  }
  return check_batch_size(plan);
}

Status read_data(const Typed& typed, LoaderOptions& options) {
  DLP_TRY(options.images, number<uint32_t>("--images", typed.images, 1, kMaxImages));
  const auto size = extents(typed.image_size, 2, kMaxImageExtent);
  if (!size) {
    return bad_value("--image-size", typed.image_size,
                     "HEIGHTxWIDTH, each from 1 to 16384, for example 256x256");
  }
  options.image_height = static_cast<int>(size->at(0));
  options.image_width = static_cast<int>(size->at(1));
  const auto pixels = static_cast<uint64_t>(size->at(0) * size->at(1)) * options.images;
  if (options.plan.data_dir.empty() && pixels > kMaxPixels) {
    return failure(ErrorCode::kInvalid, "--images " + typed.images + " of --image-size " +
                                            typed.image_size +
                                            " are more than the loader makes in memory (8 Gpixel): "
                                            "give fewer, smaller ones, or --data DIR");
  }
  return {};
}

Status read_rest(const Typed& typed, LoaderOptions& options) {
  DLP_TRY(options.seed, number<uint64_t>("--seed", typed.seed, 0, UINT64_MAX));
  DLP_TRY(options.threads, number("--threads", typed.threads, 0, 4096));
  if (typed.step != "train" && typed.step != "none" && typed.step != "repeat") {
    return bad_value("--step", typed.step, "train, none or repeat");
  }
  options.train = typed.step != "none";
  options.repeats_batch = typed.step == "repeat";
  if (!typed.progress_fd.empty()) {
    DLP_TRY(options.progress_fd, number("--progress-fd", typed.progress_fd, 0, INT32_MAX));
  }
  auto fault = parse_fault(options.plan.fault);
  if (!fault) return failure(ErrorCode::kInvalid, "--fault: " + to_string(fault.error()));
  options.fault = std::move(*fault);
  return {};
}

std::string_view value_of(const FaultParameter& parameter) {
  switch (parameter.type) {
    case FaultParameter::Type::kSize:
      return "SIZE";
    case FaultParameter::Type::kCount:
    case FaultParameter::Type::kIndex:
      return "N";
    case FaultParameter::Type::kWord:
      return parameter.words;
  }
  return "";
}

std::string fault_help() {
  std::string text =
      "Faults (--fault NAME[:key=value,...]); those of shared memory inside a private "
      "/dev/shm:\n";
  for (const FaultInfo& info : all_faults()) {
    text += fmt::format("  {}\n      {}\n", info.name, info.summary);
    for (const FaultParameter& parameter : info.parameters) {
      text += fmt::format("      {}={}  {}\n", parameter.key, value_of(parameter), parameter.help);
    }
  }
  return text;
}

void declare(CLI::App& app, Typed& typed, LoaderOptions& options) {
  // A caller may add to a command line and so override what is in it.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag(
      "--version", "dlprobe-reference-loader " DLPROBE_VERSION "\nbuilt with " DLPROBE_LIBRARIES);
  for (const LoaderOption& option : loader_options()) {
    const std::string name(option.name);
    const std::string what(option.what);
    if (option.flag != nullptr) {
      app.add_flag(name, options.plan.*option.flag, what);
    } else {
      app.add_option(name, typed.plan[option.name], what)
          ->type_name(std::string(option.value_name));
    }
  }
  app.add_option("--images", typed.images, "How many images are made")->type_name("N");
  app.add_option("--image-size", typed.image_size, "HxW of the images that are made")
      ->type_name("HxW");
  app.add_option("--seed", typed.seed, "Of the order, the augmentation and the weights")
      ->type_name("N");
  app.add_option("--progress-fd", typed.progress_fd, "Write JSON lines to this descriptor")
      ->type_name("FD");
  app.add_option("--threads", typed.threads,
                 "libtorch's threads in the training loop; 0: its choice");
  app.add_option(
         "--step", typed.step,
         "train; none: only take the batches; repeat: train on the first one again and again")
      ->type_name("NAME");
  app.add_flag("--verify", options.verify, "Progress lines carry the images and a checksum");
}

}  // namespace

Expected<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  CommandLine result;
  Typed typed;
  CLI::App app("A multi-process data loader with PyTorch's structure, as a subject for dlprobe.",
               "dlprobe-reference-loader");
  declare(app, typed, result.options);
  app.footer(fault_help());
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion& version) {
    result.text = std::string(version.what()) + "\n";
    return result;
  } catch (const CLI::ParseError& error) {
    return failure(ErrorCode::kInvalid,
                   std::string(error.what()) + "; see dlprobe-reference-loader --help");
  }
  DLP_CHECK(read_plan(app, typed, result.options.plan));
  DLP_CHECK(read_data(typed, result.options));
  DLP_CHECK(read_rest(typed, result.options));
  return result;
}

}  // namespace dlprobe::loader
