#pragma once

#include <memory>
#include <string>

#include "lib/base/error.h"
#include "tools/reference_loader/options.h"
#include "tools/reference_loader/tensors.h"

namespace dlprobe::loader {

/// How long the parts of a training step took.
struct StepTimes {
  double copy_s = 0;  ///< to the device
  double step_s = 0;  ///< forward, backward, optimiser
};

/// A small convolutional network on a device, trained with SGD by libtorch's generic API, so that
/// one source serves CPU and CUDA builds.
class Trainer {
 public:
  /// kInvalid if the device is not there.
  static Expected<std::unique_ptr<Trainer>> create(const LoaderOptions& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  std::string device() const;       ///< "cpu", "cuda:0"
  std::string device_name() const;  ///< "NVIDIA H200", or the CPU's model
  bool is_cuda() const;

  /// Copies the batch to the device and does one step on it.
  Expected<StepTimes> step(const BatchHandle& batch);

  /// One step on zeros: libtorch's threads and the device are in use from then on.
  Status warm_up(const LoaderPlan& plan);

 private:
  struct Network;
  explicit Trainer(std::unique_ptr<Network> network);
  std::unique_ptr<Network> network_;
};

}  // namespace dlprobe::loader
