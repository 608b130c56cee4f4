#include "lib/foreign/syscalls.h"

#include <algorithm>
#include <array>

namespace dlprobe {
namespace {

constexpr auto kSyscalls = std::to_array<Syscall>({
#define DLP_SYSCALL(name, x86_64, aarch64, wait, files) \
  {#name, x86_64, aarch64, WaitKind::wait, FileArgument::files},
#include "lib/foreign/syscalls.def"
#undef DLP_SYSCALL
});

}  // namespace

const Syscall* find_syscall(int64_t number, std::string_view machine) {
  if (number < 0 || (machine != "x86_64" && machine != "aarch64")) return nullptr;
  const auto found = std::ranges::find(kSyscalls, number,
                                       machine == "x86_64" ? &Syscall::x86_64 : &Syscall::aarch64);
  return found == kSyscalls.end() ? nullptr : &*found;
}

std::string_view own_syscall_machine() {
#ifdef __x86_64__
  return "x86_64";
#else
  return "aarch64";
#endif
}

}  // namespace dlprobe
