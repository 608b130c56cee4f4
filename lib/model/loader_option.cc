#include "lib/model/loader_option.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "lib/base/parse.h"

namespace dlprobe {
namespace {

std::unexpected<Error> bad_value(std::string_view option, std::string_view value,
                                 std::string_view expected) {
  return failure(ErrorCode::kInvalid, std::string(option) + " '" + std::string(value) +
                                          "' is not " + std::string(expected));
}

std::string shape_text(const LoaderPlan& plan) {
  std::string text;
  for (const int64_t extent : plan.sample_shape)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

Status read_shape(std::string_view text, LoaderPlan& plan) {
  std::vector<int64_t> shape;
  for (const std::string_view piece : split(text, 'x')) {
    const auto extent = parse_int<int64_t>(piece);
    if (!extent || *extent < 1 || *extent > kLargestExtent) {
      return bad_value("--sample-shape", text,
                       "a shape: give channels x height x width, each from 1 to " +
                           std::to_string(kLargestExtent) + ", for example 3x224x224");
    }
    shape.push_back(*extent);
  }
  if (shape.size() != 3) {
    return failure(ErrorCode::kInvalid, "--sample-shape '" + std::string(text) + "' has " +
                                            std::to_string(shape.size()) +
                                            " numbers instead of 3 (channels x height x width)");
  }
  plan.sample_shape = std::move(shape);
  return {};
}

Status read_dtype(std::string_view text, LoaderPlan& plan) {
  if (!dtype_bytes(text))
    return bad_value("--dtype", text, "one of float32, float16, bfloat16, uint8");
  plan.dtype = text;
  return {};
}

Status read_start_method(std::string_view text, LoaderPlan& plan) {
  const auto method = from_string<StartMethod>(text);
  if (!method) return bad_value("--start-method", text, "one of fork, spawn, forkserver");
  plan.start_method = *method;
  return {};
}

Status read_sharing_strategy(std::string_view text, LoaderPlan& plan) {
  const auto strategy = from_string<SharingStrategy>(text);
  if (!strategy)
    return bad_value("--sharing-strategy", text, "one of file_descriptor, file_system");
  plan.sharing_strategy = *strategy;
  return {};
}

Status read_device(std::string_view text, LoaderPlan& plan) {
  const bool is_numbered =
      text.starts_with("cuda:") && parse_int<uint8_t>(text.substr(5)).value_or(255) < 128;
  if (text != "auto" && text != "cpu" && text != "cuda" && !is_numbered)
    return bad_value("--device", text, "auto, cpu, cuda or cuda:NUMBER");
  plan.device = text;
  return {};
}

constexpr std::array kOptions = {
    LoaderOption{.name = "--workers",
                 .what = "worker processes (num_workers)",
                 .number = &LoaderPlan::workers,
                 .most = kMostWorkers},
    LoaderOption{.name = "--batch-size",
                 .what = "samples per batch",
                 .number = &LoaderPlan::batch_size,
                 .least = 1,
                 .most = kLargestBatch},
    LoaderOption{.name = "--sample-shape",
                 .what = "channels x height x width of a sample",
                 .value_name = "CxHxW",
                 .read = read_shape,
                 .write = shape_text},
    LoaderOption{.name = "--dtype",
                 .what = "element type of a sample",
                 .value_name = "NAME",
                 .read = read_dtype,
                 .write = [](const LoaderPlan& plan) { return plan.dtype; }},
    LoaderOption{.name = "--prefetch-factor",
                 .what = "batches in flight per worker",
                 .number = &LoaderPlan::prefetch_factor,
                 .least = 1,
                 .most = kMostPrefetched},
    LoaderOption{
        .name = "--start-method",
        .what = "how workers are started",
        .value_name = "NAME",
        .read = read_start_method,
        .write = [](const LoaderPlan& plan) { return std::string(to_string(plan.start_method)); }},
    LoaderOption{
        .name = "--sharing-strategy",
        .what = "how tensors are handed over",
        .value_name = "NAME",
        .read = read_sharing_strategy,
        .write =
            [](const LoaderPlan& plan) { return std::string(to_string(plan.sharing_strategy)); }},
    LoaderOption{.name = "--pin-memory",
                 .what = "copy batches to pinned memory in a thread",
                 .flag = &LoaderPlan::pin_memory},
    LoaderOption{.name = "--persistent-workers",
                 .what = "keep workers between epochs",
                 .flag = &LoaderPlan::persistent_workers},
    LoaderOption{.name = "--epochs",
                 .what = "epochs to run",
                 .number = &LoaderPlan::epochs,
                 .least = 1,
                 .most = kMostEpochs},
    LoaderOption{.name = "--batches",
                 .what = "batches per epoch (0: enough to see the steady state)",
                 .number = &LoaderPlan::batches,
                 .most = kMostBatches},
    LoaderOption{.name = "--device",
                 .what = "auto, cpu, cuda or cuda:N",
                 .value_name = "NAME",
                 .read = read_device,
                 .write = [](const LoaderPlan& plan) { return plan.device; }},
    LoaderOption{.name = "--data",
                 .what = "folder of images (default: built-in images)",
                 .value_name = "DIR",
                 .read =
                     [](std::string_view text, LoaderPlan& plan) {
                       plan.data_dir = text;
                       return Status();
                     },
                 .write = [](const LoaderPlan& plan) { return plan.data_dir; }},
    LoaderOption{
        .name = "--data-sample",
        .what = "the first N images of --data, and built-in ones where it has none (0: all)",
        .number = &LoaderPlan::data_sample,
        .most = 1'000'000},
    LoaderOption{.name = "--fault",
                 .what = "make this failure happen inside the reference loader",
                 .value_name = "NAME[:k=v,...]",
                 .read =
                     [](std::string_view text, LoaderPlan& plan) {
                       plan.fault = text;
                       return Status();
                     },
                 .write = [](const LoaderPlan& plan) { return plan.fault; }},
};

}  // namespace

std::span<const LoaderOption> loader_options() {
  return kOptions;
}

const LoaderOption& loader_option(std::string_view name) {
  const auto* const found = std::ranges::find(kOptions, name, &LoaderOption::name);
  assert(found != kOptions.end());
  return *found;
}

Status read_loader_option(const LoaderOption& option, std::string_view text, LoaderPlan& plan) {
  if (option.number == nullptr) return option.read(text, plan);
  const auto number = parse_int<int>(text);
  if (!number || *number < option.least || *number > option.most) {
    return bad_value(option.name, text,
                     "a whole number from " + std::to_string(option.least) + " to " +
                         std::to_string(option.most));
  }
  plan.*option.number = *number;
  return {};
}

std::vector<std::string> loader_arguments(const LoaderPlan& plan) {
  std::vector<std::string> arguments;
  for (const LoaderOption& option : kOptions) {
    if (option.flag != nullptr) {
      if (plan.*option.flag) arguments.emplace_back(option.name);
      continue;
    }
    std::string text =
        option.number != nullptr ? std::to_string(plan.*option.number) : option.write(plan);
    if (text.empty()) continue;
    arguments.emplace_back(option.name);
    arguments.push_back(std::move(text));
  }
  return arguments;
}

Status check_batch_size(const LoaderPlan& plan) {
  if (sample_bytes(plan) <= kLargestBatchBytes / static_cast<uint64_t>(plan.batch_size)) return {};
  return failure(ErrorCode::kInvalid, "--batch-size " + std::to_string(plan.batch_size) +
                                          " of --sample-shape " + shape_text(plan) +
                                          " is more than 1 TiB per batch: check both numbers");
}

}  // namespace dlprobe
