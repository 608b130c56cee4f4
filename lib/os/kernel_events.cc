#include "lib/os/kernel_events.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>

#include "lib/base/unique_fd.h"
#include "lib/base/units.h"
#include "lib/os/clock.h"
#include "lib/os/file_system.h"
#include "lib/os/host_facts.h"
#include "lib/os/recorded_machine.h"

namespace dlprobe {
namespace {

constexpr size_t kDataPages = 4;  ///< of one CPU's ring: some 150 records of signal_generate

#ifdef __x86_64__
// PERF_REG_X86_DX, _SI, _SP and _IP
constexpr uint64_t kRegisters = uint64_t{3} << 3U | uint64_t{3} << 7U;
#elifdef __aarch64__
// PERF_REG_ARM64_X1, _X2, _SP and _PC
constexpr uint64_t kRegisters = uint64_t{3} << 1U | uint64_t{3} << 31U;
#else
constexpr uint64_t kRegisters = 0;
#endif

/// The ring of one CPU, as perf_event_open(2) has it: one page of control, then the records.
class Ring {
 public:
  static Expected<Ring> open(perf_event_attr& attributes, int cpu, const std::string& filter) {
    Ring ring;
    ring.fd_ = UniqueFd(static_cast<int>(
        ::syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
    const std::string where = "perf_event_open on CPU " + std::to_string(cpu);
    if (!ring.fd_) return os_failure(where);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): ioctl is what it is
    if (::ioctl(ring.fd_.get(), PERF_EVENT_IOC_SET_FILTER, filter.c_str()) != 0) {
      return os_failure("the filter of " + where);
    }
    ring.page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    ring.map_ = ::mmap(nullptr, (1 + kDataPages) * ring.page_, PROT_READ | PROT_WRITE, MAP_SHARED,
                       ring.fd_.get(), 0);
    if (ring.map_ == MAP_FAILED) {
      ring.map_ = nullptr;
      return os_failure("mmap of " + where);
    }
    return ring;
  }

  ~Ring() {
    if (map_ != nullptr) ::munmap(map_, (1 + kDataPages) * page_);
  }
  Ring(Ring&& other) noexcept
      : fd_(std::move(other.fd_)), map_(std::exchange(other.map_, nullptr)), page_(other.page_) {}
  Ring& operator=(Ring&&) = delete;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  int fd() const { return fd_.get(); }

  /// The records that are there, whose room is given back.
  std::vector<std::byte> take() {
    auto* control = static_cast<perf_event_mmap_page*>(map_);
    const std::span data(static_cast<const std::byte*>(map_) + page_, kDataPages * page_);
    const uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
    uint64_t at = control->data_tail;
    std::vector<std::byte> bytes(std::min<uint64_t>(head - at, data.size()));
    for (std::byte& byte : bytes)
      byte = data[at++ % data.size()];
    std::atomic_ref(control->data_tail).store(head, std::memory_order_release);
    return bytes;
  }

 private:
  Ring() = default;

  UniqueFd fd_;
  void* map_ = nullptr;
  size_t page_ = 0;
};

/// Takes values off the front of a record.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T value() {
    T result{};
    const auto bytes = take(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&result, bytes.data(), sizeof(T));
    return result;
  }
  std::span<const std::byte> take(size_t count) {
    const auto result = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(result.size());
    return result;
  }

 private:
  std::span<const std::byte> rest_;
};

// PERF_RECORD_SAMPLE with TID, TIME, RAW and REGS_USER, in this order.
TracepointRecord parse_sample(Cursor cursor) {
  TracepointRecord record;
  // A process that is not in dlprobe's pid namespace has -1 or 0 here.
  record.pid = std::max(cursor.value<int32_t>(), 0);
  record.tid = std::max(cursor.value<int32_t>(), 0);
  record.at = cursor.value<int64_t>();
  const auto size = cursor.value<uint32_t>();
  const auto fields = cursor.take(size);
  record.fields.assign(fields.begin(), fields.end());
  if (kRegisters != 0 && cursor.value<uint64_t>() != PERF_SAMPLE_REGS_ABI_NONE) {
    record.arguments = {cursor.value<uint64_t>(), cursor.value<uint64_t>()};
    record.stack_pointer = cursor.value<uint64_t>();
    record.code_address = cursor.value<uint64_t>();
  }
  return record;
}

class PerfTracepoint final : public Tracepoint {
 public:
  explicit PerfTracepoint(std::vector<Ring> rings) : rings_(std::move(rings)) {}

  std::vector<TracepointRecord> take() override {
    // perf does not offer CLOCK_BOOTTIME for tracepoints (it would have to be safe in an NMI).
    const int64_t slept =
        time_by(CLOCK_BOOTTIME).value_or(0) - time_by(CLOCK_MONOTONIC).value_or(0);
    std::vector<TracepointRecord> records;
    for (Ring& ring : rings_)
      lost_ += parse_perf_records(ring.take(), records);
    for (TracepointRecord& record : records)
      record.at += slept;
    std::ranges::stable_sort(records, {}, &TracepointRecord::at);
    return records;
  }

  uint64_t take_lost() override { return std::exchange(lost_, 0); }

  std::vector<int> descriptors() const override {
    std::vector<int> result;
    result.reserve(rings_.size());
    for (const Ring& ring : rings_)
      result.push_back(ring.fd());
    return result;
  }

 private:
  std::vector<Ring> rings_;
  uint64_t lost_ = 0;
};

class Kmsg final : public KernelLog {
 public:
  explicit Kmsg(UniqueFd fd) : fd_(std::move(fd)) {}

  std::vector<std::string> take() override {
    std::vector<std::string> records;
    std::array<char, 8192> buffer{};  // PRINTKRB_RECORD_MAX of kernel/printk/internal.h is 1024
    while (records.size() < kMostAtOnce) {
      const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
      // EPIPE: records were overwritten before they were read; the next read goes on after them.
      if (count < 0 && (errno == EPIPE || errno == EINTR)) continue;
      if (count <= 0) break;
      records.emplace_back(buffer.data(), static_cast<size_t>(count));
    }
    return records;
  }

 private:
  static constexpr size_t kMostAtOnce = 4096;  ///< an OOM kill prints some hundred lines
  UniqueFd fd_;
};

/// The root of a tracefs that is mounted nowhere.
Expected<UniqueFd> open_tracefs() {
  const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC)));
  if (!context) return os_failure("fsopen tracefs");
  if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return os_failure("fsconfig tracefs");
  }
  UniqueFd root(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
  if (!root) return os_failure("fsmount tracefs");
  return root;
}

}  // namespace

uint64_t parse_perf_records(std::span<const std::byte> bytes,
                            std::vector<TracepointRecord>& records) {
  uint64_t lost = 0;
  while (!bytes.empty()) {
    Cursor cursor(bytes);
    const auto header = cursor.value<perf_event_header>();
    if (header.size < sizeof(header) || header.size > bytes.size()) break;
    Cursor body(cursor.take(header.size - sizeof(header)));
    if (header.type == PERF_RECORD_LOST) {
      body.take(sizeof(uint64_t));  // the id of the event
      lost += body.value<uint64_t>();
    } else if (header.type == PERF_RECORD_SAMPLE) {
      records.push_back(parse_sample(body));
    }
    bytes = bytes.subspan(header.size);
  }
  return lost;
}

Expected<std::string> KernelEvents::tracepoint_format(const std::string& /*name*/) const {
  return needs_live_kernel("tracefs");
}

Expected<std::unique_ptr<Tracepoint>> KernelEvents::open_tracepoint(
    uint64_t /*id*/, const std::string& /*filter*/) const {
  return needs_live_kernel("perf_event_open");
}

Expected<std::unique_ptr<KernelLog>> KernelEvents::follow_log() const {
  return needs_live_kernel("/dev/kmsg");
}

Expected<std::string> SystemKernelEvents::tracepoint_format(const std::string& name) const {
  DLP_TRY(const UniqueFd tracefs, open_tracefs());
  const std::string path = "events/" + name + "/format";
  const UniqueFd file(::openat(tracefs.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return os_failure("open tracefs " + path);
  std::array<char, 16384> buffer{};
  const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
  if (count < 0) return os_failure("read tracefs " + path);
  return std::string(buffer.data(), static_cast<size_t>(count));
}

Expected<std::unique_ptr<Tracepoint>> SystemKernelEvents::open_tracepoint(
    uint64_t id, const std::string& filter) const {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_TRACEPOINT;
  attributes.config = id;
  attributes.sample_period = 1;
  attributes.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW;
  if (kRegisters != 0) {
    attributes.sample_type |= PERF_SAMPLE_REGS_USER;
    attributes.sample_regs_user = kRegisters;
  }
  attributes.wakeup_events = 1;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  DLP_TRY(const auto root, open_root("/"));
  DLP_TRY(const auto cpus, online_cpus(*root));
  std::vector<Ring> rings;
  rings.reserve(cpus.size());
  for (const int cpu : cpus) {
    DLP_TRY(auto ring, Ring::open(attributes, cpu, filter));
    rings.push_back(std::move(ring));
  }
  return std::make_unique<PerfTracepoint>(std::move(rings));
}

Expected<std::unique_ptr<KernelLog>> SystemKernelEvents::follow_log() const {
  UniqueFd fd(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return os_failure("open /dev/kmsg");
  if (::lseek(fd.get(), 0, SEEK_END) < 0) return os_failure("seek in /dev/kmsg");
  return std::make_unique<Kmsg>(std::move(fd));
}

}  // namespace dlprobe
