#include "lib/base/library_name.h"

namespace dlprobe {

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_libc(std::string_view path) {
  const std::string_view name = base_name(path);
  return name.starts_with("libc.so") || name.starts_with("libc-2.") ||
         name.starts_with("libpthread") || name.starts_with("ld-musl");
}

bool is_language_runtime(std::string_view path) {
  const std::string_view name = base_name(path);
  return is_libc(path) || name.starts_with("libstdc++") || name.starts_with("libc++");
}

bool is_libgomp(std::string_view path) {
  const std::string_view name = base_name(path);
  return name.starts_with("libgomp.so") || name.starts_with("libgomp-");
}

bool is_openmp(std::string_view path) {
  const std::string_view name = base_name(path);
  return is_libgomp(path) || name.starts_with("libiomp") || name.starts_with("libomp");
}

}  // namespace dlprobe
