#include "lib/base/error.h"

#include <cstring>

namespace dlprobe {
namespace {

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

}  // namespace dlprobe
