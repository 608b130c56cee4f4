#include "lib/model/tune_step.h"

namespace dlprobe {

std::vector<Setting> one_thread_settings() {
  std::vector<Setting> settings;
  // OpenMP's, MKL's, OpenBLAS's, NumExpr's, OpenCV's.
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                           "NUMEXPR_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"}) {
    settings.push_back({SettingKind::kEnvironment, name, "1"});
  }
  return settings;
}

}  // namespace dlprobe
