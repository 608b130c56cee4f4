#include "lib/proc/smaps_rollup.h"

#include "lib/proc/text.h"

namespace dlprobe {

Expected<SmapsRollup> parse_smaps_rollup(std::string_view text) {
  const auto rss = find_kib(text, "Rss");
  const auto pss = find_kib(text, "Pss");
  const auto swap = find_kib(text, "Swap");
  if (!rss || !pss || !swap || !find_kib(text, "Locked")) {
    return malformed("/proc/PID/smaps_rollup", "cut off or a line is missing", text);
  }
  return SmapsRollup{.rss_bytes = *rss,
                     .pss_bytes = *pss,
                     .swap_bytes = *swap,
                     .pss_anon_bytes = find_kib(text, "Pss_Anon"),
                     .private_bytes = find_kib(text, "Private_Clean").value_or(0) +
                                      find_kib(text, "Private_Dirty").value_or(0)};
}

}  // namespace dlprobe
