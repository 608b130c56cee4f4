#include "lib/proc/pid_io.h"

#include "lib/proc/text.h"

namespace dlprobe {

Expected<uint64_t> parse_pid_io_calls(std::string_view text) {
  constexpr std::string_view kFile = "/proc/PID/io";
  DLP_TRY(const uint64_t reads, parse_flat_key(text, "syscr:", kFile));
  DLP_TRY(const uint64_t writes, parse_flat_key(text, "syscw:", kFile));
  return reads + writes;
}

}  // namespace dlprobe
