#pragma once

#include <cerrno>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/names.h"

namespace dlprobe {

/// What a caller can do about a failure. The errno and the words are in Error.
enum class ErrorCode {
  kVanished,      ///< the process or thread is gone; drop it
  kNotFound,      ///< the file is not there while its process is
  kForbidden,     ///< EACCES or EPERM: a right is missing
  kTimeout,       ///< the read did not return within its limit
  kMalformed,     ///< the text is not what the format says
  kUnsupported,   ///< this kernel, libc or build does not offer it
  kInsufficient,  ///< too little was observed to say
  kInvalid,       ///< the user asked for something that makes no sense
  kIo,            ///< any other failed system call
};
template <>
struct Names<ErrorCode> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"vanished", "not-found", "forbidden", "timeout", "malformed",
                                       "unsupported", "insufficient", "invalid", "io"});
};

/// Why something could not be done: what was tried, and what the kernel said.
struct Error {
  ErrorCode code = ErrorCode::kIo;
  int os_errno = 0;     ///< 0 where no system call failed
  std::string context;  ///< what was tried, for example "read /proc/42/maps"

  bool operator==(const Error&) const = default;
};

/// An Error made from errno; EACCES, EPERM, ENOENT, ESRCH, ENOSYS choose the code.
Error os_error(std::string context, int os_errno = errno);

/// "read /proc/42/maps: Permission denied (EACCES)". One line, no full stop.
std::string to_string(const Error& error);

/// A value, or why there is none. Used for everything that a diagnostic tool must expect to fail.
template <class T>
using Expected = std::expected<T, Error>;

/// Success, or why not.
using Status = Expected<void>;

/// A fact about the machine, or why it could not be learned: never a silent zero.
template <class T>
using Observed = Expected<T>;

/// `next` of the value, or the error: the and_then that GCC 12's std::expected lacks. What `next`
/// returns must not refer to the value.
template <class T, class Next>
auto chain(Expected<T> value, Next&& next) -> decltype(std::forward<Next>(next)(*value)) {
  if (!value) return std::unexpected(std::move(value).error());
  return std::forward<Next>(next)(*value);
}

/// Shorthand for returning an Error from a function that returns Expected.
inline std::unexpected<Error> failure(ErrorCode code, std::string context) {
  return std::unexpected(Error{.code = code, .os_errno = 0, .context = std::move(context)});
}

/// As failure(), from errno.
inline std::unexpected<Error> os_failure(std::string context, int os_errno = errno) {
  return std::unexpected(os_error(std::move(context), os_errno));
}

}  // namespace dlprobe

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define DLP_CONCAT_INNER(a, b) a##b
#define DLP_CONCAT(a, b) DLP_CONCAT_INNER(a, b)
#define DLP_TRY_INNER(temporary, declaration, expression)               \
  auto temporary = (expression);                                        \
  if (!temporary) return std::unexpected(std::move(temporary).error()); \
  declaration = std::move(*temporary)
// NOLINTEND(bugprone-macro-parentheses)

/// `DLP_TRY(auto text, files.read(path));` gives the value, or returns the error from this
/// function.
#define DLP_TRY(declaration, expression) \
  DLP_TRY_INNER(DLP_CONCAT(dlp_try_, __LINE__), declaration, expression)

/// `DLP_CHECK(write_all(fd, text));` returns the error of a Status from this function.
#define DLP_CHECK(expression)                                \
  do {                                                       \
    if (auto dlp_status = (expression); !dlp_status)         \
      return std::unexpected(std::move(dlp_status).error()); \
  } while (false)
