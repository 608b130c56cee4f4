#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/recording.h"
#include "lib/model/sample.h"
#include "lib/model/shm.h"

namespace dlprobe {

/// One process as `dlprobe top` shows it. Nothing: not known, or not yet.
struct TopProcess {
  ProcessKey key;
  Role role = Role::kOther;
  std::optional<int32_t> rank;    ///< of a job of several; a worker has that of its trainer
  std::optional<size_t> index;    ///< of a worker: the how manyth living one of its trainer, from 0
  std::string state;              ///< what its main thread does: "runs", "waits for a pipe"
  std::optional<double> cpu;      ///< CPUs that it took in the last second
  std::optional<double> io_rate;  ///< calls of read and write in a second
  std::optional<BootNs> still;    ///< for how long it has neither computed, read nor written
  std::optional<uint64_t> rss_bytes;
  std::optional<uint64_t> pss_bytes;
  std::optional<BootNs> pss_age;
  std::optional<uint64_t> shm_bytes;  ///< of the segments that it has open or mapped
  std::optional<uint64_t> fds;
  bool has_ended = false;
};

/// A job at one moment.
struct TopPicture {
  BootNs at = 0;
  int32_t root_pid = 0;
  std::vector<std::string> command;  ///< of the root; hostile text
  std::optional<BootNs> age;         ///< of the root
  std::vector<TopProcess> processes; /**< launchers, then each rank or trainer with its workers in
                                          the order of their start, then the others */
  std::vector<ShmUse> shm;           ///< one for each /dev/shm of the job
  std::optional<uint64_t> memory_used_bytes;  ///< of its memory group
  std::optional<uint64_t> memory_limit_bytes;
  std::string end;  ///< how it ended: "exited with code 1"; empty: it lives
};

/// Follows a job by the records of one run, each of which it looks at once.
class JobPicture {
 public:
  /// Takes in what `run` has of later times than at the last call.
  void take(const HostFacts& host, const Run& run);

  TopPicture picture() const;

 private:
  /// What is known of one process beside its newest sample.
  struct Known {
    BootNs marked_at = 0;  ///< the sample that rates are counted from; 0: none yet
    uint64_t marked_ticks = 0;
    std::optional<double> cpu;
    BootNs io_at = 0;
    std::optional<uint64_t> io_calls;
    std::optional<double> io_rate;
    uint64_t last_ticks = 0;
    BootNs moved_at = 0;  ///< when it was last seen to have computed, read or written; 0: not yet
    std::optional<uint64_t> pss_bytes;
    BootNs pss_at = 0;
    std::string state;
    ProcessSample sample;
  };
  void take(const Sample& sample);
  void take(const ProcessSample& sample, BootNs at);
  void take_rates(Known& known, const ProcessSample& sample, BootNs at) const;
  void take_ledgers(const std::vector<ShmLedger>& ledgers);
  TopProcess describe_process(const ProcessKey& key, const Known& known) const;
  const ProcessInfo* info_of(const ProcessKey& key) const;  ///< null: not known
  std::optional<ProcessKey> trainer_of(const ProcessKey& key) const;

  HostFacts host_;
  BootNs at_ = 0;
  ProcessKey root_;
  std::string end_;
  std::map<ProcessKey, ProcessInfo> infos_;
  std::map<ProcessKey, Known> known_;  ///< those of the newest sample
  std::map<ProcessKey, uint64_t> shm_bytes_;
  BootNs ledger_at_ = 0;
  std::map<uint64_t, ShmUse> shm_;  ///< by device
  std::optional<CgroupMemory> cgroup_;
};

/// What a process does by its state and, where that was read, by what its main thread waits in, on
/// a machine of that uname name.
std::string state_words(const ProcessSample& sample, std::string_view machine);

}  // namespace dlprobe
