#pragma once

#include <ATen/ATen.h>

namespace dlprobe::loader {

/// One batch: samples N x C x H x W, and N labels (int64).
struct BatchTensors {
  at::Tensor samples;
  at::Tensor labels;
};

}  // namespace dlprobe::loader
