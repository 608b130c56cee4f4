#include "lib/proc/pid_stat.h"

#include <array>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr size_t kFirstField = 3;  // the fields after the comm, by their numbers in the manual
constexpr size_t kLastField = 52;

/// The fields from the state on. A kernel may have added some at the end.
class Fields {
 public:
  explicit Fields(std::string_view rest) {
    for (auto& field : fields_) {
      const size_t end = rest.find(' ');
      field = rest.substr(0, end);
      ++count_;
      if (end == std::string_view::npos) return;
      rest.remove_prefix(end + 1);
    }
  }
  bool complete() const { return count_ == fields_.size(); }
  std::string_view text(size_t number) const { return fields_[number - kFirstField]; }
  template <class T>
  void number(size_t which, T& value) {
    const auto parsed = parse_int<T>(text(which));
    valid_ = valid_ && parsed.has_value();
    value = parsed.value_or(0);
  }
  bool valid() const { return valid_; }

 private:
  std::array<std::string_view, kLastField - kFirstField + 1> fields_;
  size_t count_ = 0;
  bool valid_ = true;
};

}  // namespace

Expected<PidStat> parse_pid_stat(std::string_view text) {
  constexpr std::string_view kFile = "/proc/PID/stat";
  const size_t open = text.find(" (");
  // The comm may hold ") ": only the last one ends it.
  const size_t close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open + 2 ||
      !text.ends_with('\n')) {
    return malformed(kFile, "no whole line", text);
  }
  const auto pid = parse_int<int32_t>(text.substr(0, open));
  Fields fields(text.substr(close + 2, text.size() - close - 3));
  if (!pid || !fields.complete() || fields.text(3).size() != 1) {
    return malformed(kFile, "fewer than 52 fields", text);
  }
  PidStat stat;
  stat.pid = *pid;
  stat.comm = text.substr(open + 2, close - open - 2);
  stat.state = fields.text(3).front();
  fields.number(4, stat.ppid);
  fields.number(6, stat.session);
  fields.number(7, stat.terminal);
  fields.number(9, stat.flags);
  fields.number(10, stat.memory.minor_faults);
  fields.number(12, stat.memory.major_faults);
  fields.number(14, stat.utime_ticks);
  fields.number(15, stat.stime_ticks);
  fields.number(20, stat.threads);
  fields.number(22, stat.start_ticks);
  fields.number(23, stat.memory.vm_bytes);
  fields.number(24, stat.memory.rss_pages);
  fields.number(26, stat.start_code);
  fields.number(28, stat.start_stack);
  fields.number(39, stat.processor);
  fields.number(48, stat.arg_start);
  fields.number(52, stat.exit_code);
  if (!fields.valid()) return malformed(kFile, "not a number", text);
  return stat;
}

bool is_kernel_thread(const PidStat& stat) {
  constexpr uint64_t kPfKthread = 0x00200000;  // include/linux/sched.h
  return (stat.flags & kPfKthread) != 0;
}

bool has_ended(const PidStat& stat) {
  return (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
}

bool is_forked_without_exec(const PidStat& stat) {
  constexpr uint64_t kPfForkNoExec = 0x00000040;  // include/linux/sched.h
  return (stat.flags & kPfForkNoExec) != 0;
}

}  // namespace dlprobe
