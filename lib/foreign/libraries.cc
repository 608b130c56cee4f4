#include "lib/foreign/libraries.h"

#include <array>

#include "lib/base/path_name.h"

namespace dlprobe {

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

ThreadKeeper thread_keeper(std::string_view path) {
  const std::string_view name = base_name(path);
  if (is_libgomp(path)) return ThreadKeeper::kGnuOpenMp;
  if (is_openmp(path)) return ThreadKeeper::kOtherOpenMp;
  // Of a wheel all of OpenCV is in cv2.abi3.so.
  if (name.starts_with("libopencv_core") || name.starts_with("cv2.")) return ThreadKeeper::kOpenCv;
  if (name.starts_with("polars.") || name.starts_with("_polars_runtime")) {
    return ThreadKeeper::kPolars;
  }
  if (name.starts_with("cygrpc.") || name.starts_with("libgrpc.so")) return ThreadKeeper::kGrpc;
  return ThreadKeeper::kNone;
}

bool ends_forked_copies(std::string_view path) {
  return base_name(path).starts_with("omppool.");
}

std::span<const std::string_view> loader_packages() {
  static constexpr auto kPackages = std::to_array<std::string_view>(
      {"torch", "torchvision", "numpy", "opencv-python", "opencv-python-headless",
       "opencv-contrib-python", "opencv-contrib-python-headless", "scikit-learn", "numba", "scipy",
       "pandas", "pyarrow", "polars"});
  return kPackages;
}

}  // namespace dlprobe
