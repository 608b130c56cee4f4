#include "reports/model/stable_id.h"

#include <fmt/format.h>

#include <cstdint>

namespace dlprobe {
namespace {

constexpr uint64_t kFnvPrime = 1099511628211U;

uint64_t add(uint64_t hash, std::string_view bytes) {
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * kFnvPrime;
  return hash;
}

// FNV mixes its last bytes badly into the high bits; this is the finisher of SplitMix64.
uint64_t mixed(uint64_t hash) {
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31U);
}

}  // namespace

std::string stable_id(std::initializer_list<std::string_view> parts) {
  uint64_t first = 14695981039346656037U;
  uint64_t second = first ^ 0x9e3779b97f4a7c15U;
  for (const std::string_view part : parts) {
    // The zero byte keeps ("ab", "c") and ("a", "bc") apart.
    first = add(add(first, part), std::string_view("\0", 1));
    second = add(add(second, part), std::string_view("\0", 1));
  }
  return fmt::format("{:016x}{:016x}", mixed(first), mixed(second));
}

}  // namespace dlprobe
