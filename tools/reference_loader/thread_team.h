#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace dlprobe::loader {

/// A team of threads that work together as those of OpenMP do: each takes its part of a piece of
/// work, and all wait for the last at its end. Who waits turns round for a millisecond before it
/// sleeps, as libgomp does (GOMP_SPINCOUNT): that is fast where every thread has a CPU, and takes
/// the CPU from those that have something to do where not.
class ThreadTeam {
 public:
  /// Part `part` of `parts`.
  using Work = std::function<void(int part, int parts)>;

  /// `threads`: with the one that calls run().
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Returns when every part is done.
  void run(const Work& work);

 private:
  void serve(int part);

  int parts_;
  const Work* work_ = nullptr;
  std::atomic<uint32_t> pieces_ = 0;  ///< counts up with each piece of work
  std::atomic<int> left_ = 0;         ///< parts that are not done yet, but for the caller's
  std::atomic<bool> is_ending_ = false;
  std::vector<std::jthread> others_;
};

/// How many threads a library that would take `threads` takes in this environment: fewer where
/// OMP_NUM_THREADS says so.
int threads_of_library(int threads);

/// What a library does with each batch of `samples`: some filters over each sample, their pixels
/// divided among the team.
void filter_samples(ThreadTeam& team, int samples);

}  // namespace dlprobe::loader
