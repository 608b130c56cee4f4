#include "tools/reference_loader/thread_team.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "lib/base/parse.h"

namespace dlprobe::loader {
namespace {

// Turns round for as long as `is_over` is false and a millisecond is not over, then sleeps.
template <class T>
void wait_while(const std::atomic<T>& value, T old) {
  constexpr auto kSpin = std::chrono::milliseconds(1);
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (value.load() == old) {
    if (std::chrono::steady_clock::now() > until) return value.wait(old);
  }
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) : parts_(std::max(threads, 1)) {
  others_.reserve(static_cast<size_t>(parts_) - 1);
  for (int part = 1; part < parts_; ++part)
    others_.emplace_back([this, part] { serve(part); });
}

ThreadTeam::~ThreadTeam() {
  is_ending_ = true;
  ++pieces_;
  pieces_.notify_all();
}

void ThreadTeam::run(const Work& work) {
  work_ = &work;
  left_ = parts_ - 1;
  ++pieces_;
  pieces_.notify_all();
  work(0, parts_);
  for (int left = left_; left > 0; left = left_)
    wait_while(left_, left);
}

void ThreadTeam::serve(int part) {
  uint32_t seen = 0;
  for (;;) {
    wait_while(pieces_, seen);
    ++seen;
    if (is_ending_) return;
    (*work_)(part, parts_);
    --left_;
    left_.notify_one();
  }
}

int threads_of_library(int threads) {
  const char* asked = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe)
  if (asked == nullptr) return threads;
  return std::min(threads, std::max(parse_int<int>(asked).value_or(threads), 1));
}

void filter_samples(ThreadTeam& team, int samples) {
  constexpr size_t kPixels = 32768;
  constexpr int kFilters = 4;
  std::vector<float> pixels(kPixels, 0.5F);
  const ThreadTeam::Work filter = [&pixels](int part, int parts) {
    const size_t begin = kPixels * static_cast<size_t>(part) / static_cast<size_t>(parts);
    const size_t end = kPixels * static_cast<size_t>(part + 1) / static_cast<size_t>(parts);
    for (size_t i = begin; i < end; ++i)
      pixels[i] = pixels[i] * 0.75F + 0.25F;
  };
  for (int i = 0; i < samples * kFilters; ++i)
    team.run(filter);
}

}  // namespace dlprobe::loader
