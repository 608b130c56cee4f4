#include "lib/proc/syscall_file.h"

#include <optional>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

std::optional<uint64_t> parse_hex(std::string_view field) {
  if (!field.starts_with("0x")) return std::nullopt;
  return parse_int<uint64_t>(field.substr(2), 16);
}

}  // namespace

Expected<SyscallFile> parse_syscall_file(std::string_view text) {
  constexpr std::string_view kFile = "/proc/PID/task/TID/syscall";
  if (!text.ends_with('\n')) return malformed(kFile, "cut off", text);
  const std::string_view line = text.substr(0, text.size() - 1);
  SyscallFile call;
  if (line == "running") {
    call.running = true;
    return call;
  }
  const auto fields = split_fields(line);
  const auto number = fields.empty() ? std::nullopt : parse_int<int64_t>(fields[0]);
  // "-1 SP PC" outside a call, "NR ARG1..ARG6 SP PC" in one.
  const size_t expected = number == -1 ? 3 : 9;
  if (!number || fields.size() != expected) return malformed(kFile, "not a call", text);
  call.number = *number;
  for (size_t i = 1; i < fields.size(); ++i) {
    const auto value = parse_hex(fields[i]);
    if (!value) return malformed(kFile, "not a hexadecimal number", text);
    if (expected == 9 && i <= call.args.size()) call.args[i - 1] = *value;
    if (i + 2 == fields.size()) call.stack_pointer = *value;
    if (i + 1 == fields.size()) call.program_counter = *value;
  }
  return call;
}

}  // namespace dlprobe
