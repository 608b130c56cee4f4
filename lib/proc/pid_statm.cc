#include "lib/proc/pid_statm.h"

#include <array>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {

Expected<PidStatm> parse_pid_statm(std::string_view text) {
  constexpr std::string_view kFile = "/proc/PID/statm";
  if (!text.ends_with('\n')) return malformed(kFile, "no whole line", text);
  std::array<uint64_t, 7> fields{};  // size resident shared text lib data dt
  std::string_view rest = text.substr(0, text.size() - 1);
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t end = rest.find(' ');
    const auto value = parse_int<uint64_t>(rest.substr(0, end));
    const bool last = i + 1 == fields.size();
    if (!value || last != (end == std::string_view::npos)) {
      return malformed(kFile, "not seven numbers", text);
    }
    fields[i] = *value;
    if (!last) rest.remove_prefix(end + 1);
  }
  return PidStatm{.size = fields[0], .resident = fields[1], .shared = fields[2]};
}

}  // namespace dlprobe
