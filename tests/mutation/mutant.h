/// What tests/mutation/run writes into a copy of the sources. Not part of dlprobe.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace mutant {

constexpr int kMost = 1 << 16;

/// Which of the changes were met; written to the file DLPROBE_MUTANTS_MET at the end of the
/// process.
struct Met {
  std::unique_ptr<bool[]> ids = std::make_unique<bool[]>(kMost);
  ~Met() {
    const char* path = std::getenv("DLPROBE_MUTANTS_MET");
    std::FILE* file = path != nullptr ? std::fopen(path, "a") : nullptr;
    if (file == nullptr) return;
    for (int id = 0; id < kMost; ++id) {
      if (ids[id]) std::fprintf(file, "%d\n", id);
    }
    std::fclose(file);
  }
};

inline Met met;
inline const int chosen =
    std::getenv("DLPROBE_MUTANT") != nullptr ? std::atoi(std::getenv("DLPROBE_MUTANT")) : -1;

/// Whether change `id` is the one to make. During the initialisation of other static objects none
/// is.
inline bool is_on(int id) {
  if (met.ids == nullptr) return false;
  met.ids[id] = true;
  return id == chosen;
}

/// `value`, or its opposite.
constexpr bool flip(int id, bool value) {
  if consteval {
    return value;
  } else {
    return value != is_on(id);
  }
}

}  // namespace mutant
