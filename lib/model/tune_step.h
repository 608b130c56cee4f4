#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/setting.h"
#include "lib/model/tuning.h"

namespace dlprobe {

/// What `dlprobe tune` does next.
struct TuneStep {
  TuneSetting setting;
  int32_t round = 0;
  std::string refusal;  ///< it would not fit: why it is not started; empty: it is
};

/// What the libraries read that start threads of their own, for one thread in each process.
std::vector<Setting> one_thread_settings();

}  // namespace dlprobe
