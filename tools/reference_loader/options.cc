#include "tools/reference_loader/options.h"

#include <fmt/core.h>

#include <array>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>

#include "lib/base/parse.h"
#include "lib/base/units.h"

namespace dlprobe::loader {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int kMaxBatchSize = 65536;
constexpr int kMaxPrefetch = 1024;
constexpr int64_t kMaxExtent = 65536;
constexpr int64_t kMaxImageExtent = 16384;
constexpr uint32_t kMaxImages = 1'000'000;
constexpr uint64_t kMaxBatchBytes = uint64_t{64} << 30;
// Of the built-in pictures before compression: they are kept in memory as JPEGs, about a tenth of
// it.
constexpr uint64_t kMaxPixels = uint64_t{8} << 30;

/// Text as typed; CLI11 only collects it, so that every message about a value is our own.
struct Typed {
  std::string workers = "2";
  std::string batch_size = "32";
  std::string sample_shape = "3x224x224";
  std::string dtype = "float32";
  std::string prefetch_factor = "2";
  std::string start_method = "fork";
  std::string sharing_strategy = "file_descriptor";
  std::string epochs = "1";
  std::string batches = "0";
  std::string data_sample = "0";
  std::string device = "auto";
  std::string images = "256";
  std::string image_size = "256x256";
  std::string seed = "0";
  std::string fault;
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

Status read_sizes(const Typed& typed, LoaderPlan& plan) {
  DLP_TRY(plan.workers, number("--workers", typed.workers, 0, kMaxWorkers));
  DLP_TRY(plan.batch_size, number("--batch-size", typed.batch_size, 1, kMaxBatchSize));
  DLP_TRY(plan.prefetch_factor,
          number("--prefetch-factor", typed.prefetch_factor, 1, kMaxPrefetch));
  DLP_TRY(plan.epochs, number("--epochs", typed.epochs, 1, 1'000'000));
  DLP_TRY(plan.batches, number("--batches", typed.batches, 0, 1'000'000'000));
  DLP_TRY(plan.data_sample, number("--data-sample", typed.data_sample, 0, 1'000'000));
  const auto shape = extents(typed.sample_shape, 3, kMaxExtent);
  if (!shape) {
    return bad_value("--sample-shape", typed.sample_shape,
                     "CHANNELSxHEIGHTxWIDTH, each from 1 to 65536, for example 3x224x224");
  }
  plan.sample_shape = *shape;
  if (!dtype_bytes(typed.dtype)) {
    return bad_value("--dtype", typed.dtype, "float32, float16, bfloat16 or uint8");
  }
  plan.dtype = typed.dtype;
  // Three extents of at most 2^16 and 4 bytes: 2^50, so this product does not overflow; the next
  // could.
  const uint64_t bytes = sample_bytes(plan);
  if (bytes > kMaxBatchBytes / static_cast<uint64_t>(plan.batch_size)) {
    return failure(ErrorCode::kInvalid, "--batch-size " + typed.batch_size + " of --sample-shape " +
                                            typed.sample_shape + " (" + format_bytes(bytes) +
                                            " each) is more than " + format_bytes(kMaxBatchBytes) +
                                            " per batch: give less");
  }
  return {};
}

Status read_choices(const Typed& typed, LoaderPlan& plan) {
  const auto method = start_method_from_string(typed.start_method);
  if (!method) {
    return bad_value("--start-method", typed.start_method, "fork, spawn or forkserver");
  }
  plan.start_method = *method;
  const auto strategy = sharing_strategy_from_string(typed.sharing_strategy);
  if (!strategy) {
    return bad_value("--sharing-strategy", typed.sharing_strategy,
                     "file_descriptor or file_system");
  }
  plan.sharing_strategy = *strategy;
  const std::string_view device = typed.device;
  const bool numbered =
      device.starts_with("cuda:") && parse_int<uint8_t>(device.substr(5)).value_or(255) < 128;
  if (device != "auto" && device != "cpu" && device != "cuda" && !numbered) {
    return bad_value("--device", device, "auto, cpu, cuda or cuda:NUMBER");
  }
  plan.device = device;
  return {};
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
  options.plan.fault = typed.fault;
  auto fault = parse_fault(typed.fault);
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
  app.add_option("--workers", typed.workers, "Worker processes; 0 loads in the main process");
  app.add_option("--batch-size", typed.batch_size, "Samples in a batch")->type_name("N");
  app.add_option("--sample-shape", typed.sample_shape, "CxHxW of a sample")->type_name("CxHxW");
  app.add_option("--dtype", typed.dtype, "float32, float16, bfloat16 or uint8")->type_name("NAME");
  app.add_option("--prefetch-factor", typed.prefetch_factor, "Batches in flight per worker")
      ->type_name("N");
  app.add_option("--start-method", typed.start_method, "fork, spawn or forkserver")
      ->type_name("NAME");
  app.add_option("--sharing-strategy", typed.sharing_strategy, "file_descriptor or file_system")
      ->type_name("NAME");
  app.add_flag("--pin-memory", options.plan.pin_memory, "A thread copies batches to pinned memory");
  app.add_flag("--persistent-workers", options.plan.persistent_workers,
               "Keep the workers from epoch to epoch");
  app.add_option("--epochs", typed.epochs, "Passes over the data")->type_name("N");
  app.add_option("--batches", typed.batches, "Batches per epoch; 0: what the data gives");
  app.add_option("--device", typed.device, "auto, cpu, cuda or cuda:N")->type_name("NAME");
  app.add_option("--data", options.plan.data_dir, "Folder of images; without it they are made");
  app.add_option("--data-sample", typed.data_sample,
                 "The first N images of --data, and made ones where it has none; 0: all")
      ->type_name("N");
  app.add_option("--images", typed.images, "How many images are made")->type_name("N");
  app.add_option("--image-size", typed.image_size, "HxW of the images that are made")
      ->type_name("HxW");
  app.add_option("--seed", typed.seed, "Of the order, the augmentation and the weights")
      ->type_name("N");
  app.add_option("--fault", typed.fault, "Make a failure happen, see below")
      ->type_name("NAME[:k=v,...]");
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
  DLP_CHECK(read_sizes(typed, result.options.plan));
  DLP_CHECK(read_choices(typed, result.options.plan));
  DLP_CHECK(read_data(typed, result.options));
  DLP_CHECK(read_rest(typed, result.options));
  return result;
}

}  // namespace dlprobe::loader
