#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// What the kernel wrote when a tracepoint was passed.
struct TracepointRecord {
  BootNs at = 0;
  int32_t pid = 0;  ///< of the process that ran, in dlprobe's pid namespace; 0: it is not in it
  int32_t tid = 0;
  std::optional<uint64_t> code_address;  ///< where its thread was in user space
  std::optional<uint64_t> stack_pointer;
  std::array<uint64_t, 2> arguments = {};  ///< the second and third of its system call
  std::vector<std::byte> fields;           ///< laid out as the tracepoint's format says
};

/// Adds the samples among records as the ring of perf_event_open(2) has them for a tracepoint,
/// their moments by CLOCK_MONOTONIC; what is cut off is left out. How many the kernel says were
/// lost.
uint64_t parse_perf_records(std::span<const std::byte> bytes,
                            std::vector<TracepointRecord>& records);

/// A tracepoint that is on while this lives; the kernel turns it off if dlprobe is killed. Several
/// may be on, of several programs. Not thread-safe.
class Tracepoint {
 public:
  virtual ~Tracepoint() = default;
  Tracepoint() = default;
  Tracepoint(const Tracepoint&) = delete;
  Tracepoint& operator=(const Tracepoint&) = delete;

  /// What was written since the last call, in time order.
  virtual std::vector<TracepointRecord> take() = 0;
  /// How many records found no room since the last call.
  virtual uint64_t take_lost() = 0;
  /// Descriptors that can be read when there is something to take.
  virtual std::vector<int> descriptors() const = 0;
};

/// The kernel's log from a moment on.
class KernelLog {
 public:
  virtual ~KernelLog() = default;
  KernelLog() = default;
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  /// The records that came since the last call, as /dev/kmsg has them; those that were overwritten
  /// before they were read are missing.
  virtual std::vector<std::string> take() = 0;
};

/// What only a live kernel tells as it happens. The base class says kUnsupported to all: a recorded
/// machine.
class KernelEvents {
 public:
  virtual ~KernelEvents() = default;
  KernelEvents() = default;
  KernelEvents(const KernelEvents&) = delete;
  KernelEvents& operator=(const KernelEvents&) = delete;

  /// The text of events/`name`/format, for example of "signal/signal_generate". Of a tracefs of our
  /// own that is mounted nowhere: needs CAP_SYS_ADMIN, and leaves nothing behind.
  virtual Expected<std::string> tracepoint_format(const std::string& name) const;

  /// Turns a tracepoint on for all CPUs. Needs CAP_PERFMON or CAP_SYS_ADMIN. `filter` is in the
  /// language of Documentation/trace/events.rst.
  virtual Expected<std::unique_ptr<Tracepoint>> open_tracepoint(uint64_t id,
                                                                const std::string& filter) const;

  /// The kernel's log from now on. Needs CAP_SYSLOG where kernel.dmesg_restrict is set.
  virtual Expected<std::unique_ptr<KernelLog>> follow_log() const;
};

/// The live machine's.
class SystemKernelEvents final : public KernelEvents {
 public:
  Expected<std::string> tracepoint_format(const std::string& name) const override;
  Expected<std::unique_ptr<Tracepoint>> open_tracepoint(uint64_t id,
                                                        const std::string& filter) const override;
  Expected<std::unique_ptr<KernelLog>> follow_log() const override;
};

}  // namespace dlprobe
