#include "lib/proc/mountinfo.h"

#include <sys/sysmacros.h>

#include <algorithm>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kMountinfo = "/proc/PID/mountinfo";

/// The kernel writes blank, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      if (const auto code = parse_int<uint8_t>(text.substr(i + 1, 3), 8)) {
        plain += static_cast<char>(*code);
        i += 3;
        continue;
      }
    }
    plain += text[i];
  }
  return plain;
}

std::optional<uint64_t> parse_device(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto major_number = parse_int<uint32_t>(text.substr(0, colon));
  const auto minor_number = parse_int<uint32_t>(text.substr(colon + 1));
  if (!major_number || !minor_number) return std::nullopt;
  return makedev(*major_number, *minor_number);
}

Expected<MountEntry> parse_mount(std::string_view line) {
  const auto fields = split_fields(line);
  // Between the sixth field and the "-" stand any number of propagation fields.
  const auto dash = std::ranges::find(fields, "-");
  const auto before = dash - fields.begin();
  const auto after = fields.end() - dash;
  if (before < 6 || after < 3) return malformed(kMountinfo, "not a mount", line);
  const auto device = parse_device(fields[2]);
  if (!device) return malformed(kMountinfo, "not a mount", line);
  MountEntry entry{.device = *device,
                   .root = unescape(fields[3]),
                   .mount_point = unescape(fields[4]),
                   .fs_type = unescape(dash[1]),
                   .super_options = unescape(fields.back())};
  if (after >= 4) entry.source = unescape(dash[2]);  // an empty source leaves no field
  return entry;
}

bool lies_on(std::string_view path, std::string_view mount_point) {
  if (mount_point == "/") return true;
  return path.starts_with(mount_point) &&
         (path.size() == mount_point.size() || path[mount_point.size()] == '/');
}

}  // namespace

Expected<std::vector<MountEntry>> parse_mountinfo(std::string_view text) {
  return parse_lines(kMountinfo, text, parse_mount);
}

const MountEntry* find_mount(const std::vector<MountEntry>& mounts, std::string_view path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (!lies_on(path, mount.mount_point)) continue;
    if (best == nullptr || mount.mount_point.size() >= best->mount_point.size()) best = &mount;
  }
  return best;
}

}  // namespace dlprobe
