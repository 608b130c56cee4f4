#pragma once

#include <span>
#include <string_view>

namespace dlprobe {

/// Whether a file is the C library (glibc's libc and libpthread, musl), by its name.
bool is_libc(std::string_view path);

/// What other libraries are built on and wait through: the C library, and the C++ library (GNU's,
/// LLVM's).
bool is_language_runtime(std::string_view path);

/// GNU's OpenMP, under its own name or as a wheel ships it: libgomp-a34b3233.so.1.0.0.
bool is_libgomp(std::string_view path);

/// GNU's, Intel's or LLVM's OpenMP.
bool is_openmp(std::string_view path);

/// Libraries that keep threads of their own for work to come, and do not start them again in a copy
/// made by fork; and every OpenMP. Others either do (OpenBLAS, pyarrow), or go on without (TBB,
/// tokenizers).
enum class ThreadKeeper { kNone, kGnuOpenMp, kOtherOpenMp, kOpenCv, kPolars, kGrpc };
ThreadKeeper thread_keeper(std::string_view path);

/// Whether the library ends a process by SIGTERM that was forked after its parent had used it:
/// Numba's threads on GNU's OpenMP (omppool.cpp).
bool ends_forked_copies(std::string_view path);

/// The packages that a data loader cares about, whatever libraries they load, by their normalized
/// names (PEP 503).
std::span<const std::string_view> loader_packages();

}  // namespace dlprobe
