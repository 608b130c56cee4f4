#include "tools/reference_loader/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "tools/reference_loader/batch_tensors.h"
#include "tools/reference_loader/ipc.h"

namespace dlprobe::loader {
namespace {

constexpr int64_t kClasses = 10;
constexpr double kLearningRate = 0.01;

Expected<at::Device> choose_device(const std::string& wanted) {
  const bool has_cuda = at::hasCUDA();
  if (wanted == "cpu" || (wanted == "auto" && !has_cuda)) return at::Device(at::kCPU);
  if (!has_cuda) {
    return failure(
        ErrorCode::kInvalid,
        "--device " + wanted + ": this libtorch (" + libtorch_version() +
            ") sees no CUDA device; give --device cpu, or build against a CUDA libtorch");
  }
  const at::Device device = wanted == "auto" ? at::Device(at::kCUDA, 0) : at::Device(wanted);
  const at::Device numbered(at::kCUDA, device.has_index() ? device.index() : at::DeviceIndex{0});
  const int count = c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount();
  if (numbered.index() < count) return numbered;
  return failure(ErrorCode::kInvalid, "--device " + wanted + ": there are only " +
                                          std::to_string(count) + " CUDA devices");
}

/// The value of the first line "KEY : VALUE" of a /proc file.
std::optional<std::string> proc_value(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || trim(line.substr(0, colon)) != key) continue;
    return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return std::nullopt;
}

// A CPU build of libtorch has no API for the name of a GPU; its driver has.
std::optional<std::string> gpu_name() {
  std::error_code ignored;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    if (auto name = proc_value(gpu.path().string() + "/information", "Model")) return name;
  }
  return std::nullopt;
}

void wait_for_device(const at::Device& device) {
  if (device.is_cpu()) return;
  c10::Event event(device.type());
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  while (!event.query())
    sched_yield();
}

}  // namespace

struct Trainer::Network {
  at::Device device;
  std::vector<at::Tensor> parameters;

  at::Tensor forward(at::Tensor samples) const {
    if (samples.scalar_type() == at::kByte) samples = samples.to(at::kFloat) / 255;
    samples = samples.to(at::kFloat);
    for (size_t layer = 0; layer < 2; ++layer) {
      samples = at::relu(at::conv2d(samples, parameters[2 * layer], parameters[2 * layer + 1],
                                    /*stride=*/2, /*padding=*/1));
    }
    samples = at::adaptive_avg_pool2d(samples, {1, 1}).flatten(1);
    return at::addmm(parameters[5], samples, parameters[4]);
  }

  void update() {
    const c10::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters) {
      parameter.sub_(parameter.grad() * kLearningRate);
      parameter.mutable_grad().reset();
    }
  }
};

Trainer::Trainer(std::unique_ptr<Network> network) : network_(std::move(network)) {}
Trainer::~Trainer() = default;

Expected<std::unique_ptr<Trainer>> Trainer::create(const LoaderOptions& options) {
  try {
    DLP_TRY(const at::Device device, choose_device(options.plan.device));
    if (options.threads > 0) at::set_num_threads(options.threads);
    at::manual_seed(options.seed);
    auto network = std::make_unique<Network>(Network{.device = device});
    const std::vector<std::vector<int64_t>> shapes = {{16, options.plan.sample_shape[0], 3, 3},
                                                      {16},
                                                      {32, 16, 3, 3},
                                                      {32},
                                                      {32, kClasses},
                                                      {kClasses}};
    for (const auto& shape : shapes) {
      const at::Tensor parameter = (at::randn(shape, at::kFloat) * 0.1).to(device);
      network->parameters.push_back(parameter.set_requires_grad(true));
    }
    return std::unique_ptr<Trainer>(new Trainer(std::move(network)));
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kIo, error.what_without_backtrace());
  }
}

std::string Trainer::device() const {
  return network_->device.str();
}

std::string Trainer::device_name() const {
  const auto name = is_cuda() ? gpu_name() : proc_value("/proc/cpuinfo", "model name");
  return name.value_or("unknown");
}

bool Trainer::is_cuda() const {
  return network_->device.is_cuda();
}

Expected<StepTimes> Trainer::step(const BatchHandle& batch) {
  StepTimes times;
  try {
    const double start = monotonic_seconds();
    const at::Tensor samples = batch->samples.to(network_->device, /*non_blocking=*/true);
    const at::Tensor labels = batch->labels.to(network_->device, /*non_blocking=*/true);
    wait_for_device(network_->device);
    const double copied = monotonic_seconds();
    times.copy_s = copied - start;
    const at::Tensor loss =
        at::cross_entropy_loss(network_->forward(samples), labels.remainder(kClasses));
    loss.backward();
    network_->update();
    wait_for_device(network_->device);
    times.step_s = monotonic_seconds() - copied;
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kIo, error.what_without_backtrace());
  }
  return times;
}

Status Trainer::warm_up(const LoaderPlan& plan) {
  DLP_TRY(const PrivateBatch batch, make_private_batch(plan, std::min(plan.batch_size, 4)));
  std::ranges::fill(batch.samples, std::byte{0});
  std::ranges::fill(batch.labels, 0);
  DLP_TRY([[maybe_unused]] const StepTimes times, step(batch.tensors));
  return {};
}

}  // namespace dlprobe::loader
