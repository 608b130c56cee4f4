#include "lib/proc/maps.h"

#include <sys/sysmacros.h>

#include <optional>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kMaps = "/proc/PID/maps";

/// Takes the text up to `separator` off the front of `rest`; nothing if it is not there.
std::optional<std::string_view> take(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return field;
}

template <class T>
std::optional<T> take_int(std::string_view& rest, char separator, int base) {
  const auto field = take(rest, separator);
  return field ? parse_int<T>(*field, base) : std::nullopt;
}

/// "7f00-7f01 rw-s 00000000 00:1d 1234    /dev/shm/name".
Expected<Mapping> parse_line(std::string_view line) {
  std::string_view rest = line;
  const auto begin = take_int<uint64_t>(rest, '-', 16);
  const auto end = take_int<uint64_t>(rest, ' ', 16);
  const auto permissions = take(rest, ' ');
  const auto offset = take_int<uint64_t>(rest, ' ', 16);
  const auto major_number = take_int<uint32_t>(rest, ':', 16);
  const auto minor_number = take_int<uint32_t>(rest, ' ', 16);
  // The kernel puts a blank after the inode even where no name follows.
  const auto inode = take_int<uint64_t>(rest, ' ', 10);
  if (!begin || !end || *begin >= *end || !permissions || permissions->size() != 4 || !offset ||
      !major_number || !minor_number || !inode) {
    return malformed(kMaps, "not a mapping", line);
  }
  return Mapping{.begin = *begin,
                 .end = *end,
                 .offset = *offset,
                 .readable = (*permissions)[0] == 'r',
                 .writable = (*permissions)[1] == 'w',
                 .executable = (*permissions)[2] == 'x',
                 .shared = (*permissions)[3] == 's',
                 .device = makedev(*major_number, *minor_number),
                 .inode = *inode,
                 .path = std::string(trim(rest))};
}

}  // namespace

Expected<std::vector<Mapping>> parse_maps(std::string_view text) {
  return parse_lines(kMaps, text, parse_line);
}

Expected<std::vector<SharedMapping>> parse_shared_maps(std::string_view text) {
  DLP_TRY(auto mappings, parse_maps(text));
  std::vector<SharedMapping> shared;
  for (Mapping& mapping : mappings) {
    if (!mapping.shared || mapping.inode == 0) continue;
    shared.push_back({.begin = mapping.begin,
                      .end = mapping.end,
                      .device = mapping.device,
                      .inode = mapping.inode,
                      .name = std::move(mapping.path)});
  }
  return shared;
}

}  // namespace dlprobe
