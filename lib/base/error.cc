#include "lib/base/error.h"

#include <array>
#include <cstring>
#include <utility>

namespace dlprobe {
namespace {

constexpr std::array<std::pair<ErrorCode, std::string_view>, 9> kNames = {{
    {ErrorCode::kVanished, "vanished"},
    {ErrorCode::kNotFound, "not-found"},
    {ErrorCode::kForbidden, "forbidden"},
    {ErrorCode::kTimeout, "timeout"},
    {ErrorCode::kMalformed, "malformed"},
    {ErrorCode::kUnsupported, "unsupported"},
    {ErrorCode::kInsufficient, "insufficient"},
    {ErrorCode::kInvalid, "invalid"},
    {ErrorCode::kIo, "io"},
}};

ErrorCode code_of(int os_errno) {
  switch (os_errno) {
    case EACCES:
    case EPERM:
      return ErrorCode::kForbidden;
    case ENOENT:
      return ErrorCode::kNotFound;
    case ESRCH:
      return ErrorCode::kVanished;
    case ENOSYS:
    case ENOTTY:
    case EOPNOTSUPP:
      return ErrorCode::kUnsupported;
    case ETIMEDOUT:
      return ErrorCode::kTimeout;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

Error os_error(std::string context, int os_errno) {
  return {.code = code_of(os_errno), .os_errno = os_errno, .context = std::move(context)};
}

std::string to_string(const Error& error) {
  if (error.os_errno == 0) return error.context;
  std::string text = error.context + ": ";
  // The *_np functions (glibc 2.32) are thread-safe, and unlike strerror never translated.
  const char* description = strerrordesc_np(error.os_errno);
  const char* name = strerrorname_np(error.os_errno);
  text += description != nullptr ? description : "unknown error";
  text += " (";
  text += name != nullptr ? name : std::to_string(error.os_errno).c_str();
  return text + ")";
}

std::string_view to_string(ErrorCode code) {
  for (const auto& [candidate, name] : kNames) {
    if (candidate == code) return name;
  }
  return "io";
}

ErrorCode error_code_from_string(std::string_view name) {
  for (const auto& [code, candidate] : kNames) {
    if (candidate == name) return code;
  }
  return ErrorCode::kIo;
}

}  // namespace dlprobe
